import { afterEach, expect, test, vi } from "vitest";
import { defaultSettings, streamTurn, type Turn } from "../src/api";

afterEach(() => vi.unstubAllGlobals());

function reply(body: string, status = 200): Response {
  return new Response(body, { status, headers: { "Content-Type": "text/event-stream" } });
}

async function run(response: Response): Promise<{ turn: Turn; body: any }> {
  const fetchMock = vi.fn(async (_path: string, _init: RequestInit) => response);
  vi.stubGlobal("fetch", fetchMock);
  let last: Turn = { role: "assistant", content: "" };
  const history: Turn[] = [{ role: "user", content: "hi" }];
  await streamTurn(history, { ...defaultSettings, system: "be kind" }, new AbortController().signal, (turn) => (last = turn));
  return { turn: last, body: JSON.parse(fetchMock.mock.calls[0]![1].body as string) };
}

test("reasoning, content, finish and usage are collected", async () => {
  const events = [
    { choices: [{ index: 0, delta: { role: "assistant", content: null }, finish_reason: null }], usage: null },
    { choices: [{ index: 0, delta: { reasoning_content: "hm" }, finish_reason: null }], usage: null },
    { choices: [{ index: 0, delta: { content: "Hal" }, finish_reason: null }], usage: null },
    { choices: [{ index: 0, delta: { content: "lo" }, finish_reason: null }], usage: null },
    { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage: null },
    { choices: [], usage: { prompt_tokens: 5, completion_tokens: 3 }, timings: { predicted_per_second: 7 } },
  ];
  const { turn, body } = await run(
    reply(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("") + "data: [DONE]\n\n"),
  );
  expect(turn.reasoning).toBe("hm");
  expect(turn.content).toBe("Hallo");
  expect(turn.finish).toBe("stop");
  expect(turn.stats).toMatchObject({ promptTokens: 5, completionTokens: 3, tokensPerSecond: 7 });
  expect(body.messages[0]).toEqual({ role: "system", content: "be kind" });
  expect(body.stream).toBe(true);
});

test("an error event and an error status are shown in words", async () => {
  const inStream = await run(reply('data: {"error":{"message":"engine stopped"}}\n\ndata: [DONE]\n\n'));
  expect(inStream.turn.error).toBe("engine stopped");
  const status = await run(reply('{"error":{"message":"queue is full"}}', 429));
  expect(status.turn.error).toBe("queue is full");
  const plain = await run(reply("<html>", 502));
  expect(plain.turn.error).toContain("502");
});
