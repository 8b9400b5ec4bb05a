import { useMemo, useState } from "preact/hooks";
import type { Turn } from "./api";
import { renderMarkdown } from "./markdown";

function Reasoning({ turn, live }: { turn: Turn; live: boolean }) {
  const thinking = live && !turn.content;
  return (
    <details class="reasoning" open={thinking}>
      <summary>{thinking ? "Thinking…" : "Thought"}</summary>
      <div class="reasoning-text">{turn.reasoning}</div>
    </details>
  );
}

function StatsLine({ turn }: { turn: Turn }) {
  const { stats, finish } = turn;
  const parts: string[] = [];
  if (stats) {
    parts.push(`${stats.completionTokens} tokens`);
    if (stats.tokensPerSecond > 0) parts.push(`${stats.tokensPerSecond.toFixed(1)} tok/s`);
    parts.push(`first after ${(stats.firstTokenMs / 1000).toFixed(2)} s`);
    parts.push(`${stats.promptTokens} in prompt`);
  }
  if (finish === "length") parts.push("cut at the token limit");
  else if (finish && finish !== "stop" && finish !== "tool_calls") parts.push(finish);
  return <span class="stats">{parts.join(" · ")}</span>;
}

function CopyButton({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1200);
  };
  return (
    <button type="button" class="quiet" onClick={copy}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}

export function Message({ turn, live, onRetry }: { turn: Turn; live: boolean; onRetry?: () => void }) {
  const html = useMemo(
    () => (turn.role === "assistant" ? renderMarkdown(turn.content) : ""),
    [turn.role, turn.content],
  );
  if (turn.role === "user") {
    return (
      <article class="message user" aria-label="You">
        <div class="bubble">{turn.content}</div>
      </article>
    );
  }
  return (
    <article class="message assistant" aria-label="Model" aria-busy={live}>
      {turn.reasoning && <Reasoning turn={turn} live={live} />}
      <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />
      {turn.toolCalls?.map((call) => (
        <div class="tool-call">
          <strong>{call.name}</strong>
          <code>{call.arguments}</code>
        </div>
      ))}
      {live && !turn.content && !turn.reasoning && <span class="waiting" aria-label="Waiting" />}
      {turn.error && (
        <p class="error" role="alert">
          {turn.error}
        </p>
      )}
      {!live && (
        <footer>
          <StatsLine turn={turn} />
          {turn.content && <CopyButton text={turn.content} />}
          {onRetry && (
            <button type="button" class="quiet" onClick={onRetry}>
              {turn.error ? "Try again" : "Regenerate"}
            </button>
          )}
        </footer>
      )}
    </article>
  );
}
