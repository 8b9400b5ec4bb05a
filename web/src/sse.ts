// Server-sent events as the chat API sends them: `data:` lines, comments, blank lines between.

/** Takes text as it arrives and returns the payloads of the events that became complete. */
export class SseParser {
  private buffer = "";

  feed(text: string): string[] {
    this.buffer += text;
    const payloads: string[] = [];
    for (;;) {
      const end = this.buffer.indexOf("\n\n");
      if (end < 0) return payloads;
      const event = this.buffer.slice(0, end);
      this.buffer = this.buffer.slice(end + 2);
      const data = event
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).replace(/^ /, ""));
      if (data.length > 0) payloads.push(data.join("\n"));
    }
  }
}
