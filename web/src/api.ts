// The page's only door to the server: the public endpoints, nothing else.
import { SseParser } from "./sse";

export interface ToolCall {
  name: string;
  arguments: string;
}

export interface Turn {
  role: "user" | "assistant";
  content: string;
  reasoning?: string;
  toolCalls?: ToolCall[];
  /** Why the turn ended, or what went wrong; absent while it is being written. */
  finish?: string;
  error?: string;
  stats?: Stats;
}

export interface Stats {
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  firstTokenMs: number;
  tokensPerSecond: number;
}

export interface Settings {
  system: string;
  thinking: boolean;
  effort: "low" | "high" | "max";
  temperature: number;
  topP: number;
  maxTokens: number;
  apiKey: string;
}

export const defaultSettings: Settings = {
  system: "",
  thinking: true,
  effort: "high",
  temperature: 1,
  topP: 1,
  maxTokens: 0,
  apiKey: "",
};

export interface ServerInfo {
  model: string;
  /** What the model file says of itself, shown above the chat. */
  notice: string;
  contextTokens: number;
}

function headers(settings: Settings): Record<string, string> {
  const result: Record<string, string> = { "Content-Type": "application/json" };
  if (settings.apiKey) result["Authorization"] = `Bearer ${settings.apiKey}`;
  return result;
}

/** The error of a reply in words; servers in front may answer with something that is not JSON. */
async function errorText(response: Response): Promise<string> {
  try {
    const body = await response.json();
    if (typeof body?.error?.message === "string") return body.error.message;
  } catch {
    // not JSON: the status has to do
  }
  return `The server answered ${response.status} ${response.statusText}.`;
}

export async function fetchServerInfo(): Promise<ServerInfo> {
  const response = await fetch("/v1/models");
  if (!response.ok) throw new Error(await errorText(response));
  const model = (await response.json()).data?.[0];
  return {
    model: model?.id ?? "unknown model",
    notice: model?.meta?.description ?? "",
    contextTokens: model?.max_model_len ?? 0,
  };
}

function requestBody(history: Turn[], settings: Settings): string {
  const messages = history.map((turn) => ({ role: turn.role, content: turn.content }));
  if (settings.system.trim()) {
    messages.unshift({ role: "system" as "user", content: settings.system });
  }
  return JSON.stringify({
    messages,
    stream: true,
    stream_options: { include_usage: true },
    thinking: { type: settings.thinking ? "enabled" : "disabled" },
    ...(settings.thinking ? { reasoning_effort: settings.effort } : {}),
    temperature: settings.temperature,
    top_p: settings.topP,
    ...(settings.maxTokens > 0 ? { max_tokens: settings.maxTokens } : {}),
  });
}

function addDelta(turn: Turn, delta: Record<string, unknown>): void {
  if (typeof delta["reasoning_content"] === "string") {
    turn.reasoning = (turn.reasoning ?? "") + delta["reasoning_content"];
  }
  if (typeof delta["content"] === "string") turn.content += delta["content"];
  for (const part of (delta["tool_calls"] as any[] | undefined) ?? []) {
    turn.toolCalls ??= [];
    const call = (turn.toolCalls[part.index] ??= { name: "", arguments: "" });
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }
}

function addUsage(turn: Turn, chunk: any, firstTokenMs: number): void {
  turn.stats = {
    promptTokens: chunk.usage.prompt_tokens,
    cachedTokens: chunk.usage.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: chunk.usage.completion_tokens,
    firstTokenMs,
    tokensPerSecond: chunk.timings?.predicted_per_second ?? 0,
  };
}

/**
 * Asks for the next turn and calls `update` with the growing turn after each event.
 * Aborting the signal closes the connection, which cancels the generation.
 */
export async function streamTurn(
  history: Turn[],
  settings: Settings,
  signal: AbortSignal,
  update: (turn: Turn) => void,
): Promise<void> {
  const turn: Turn = { role: "assistant", content: "" };
  const started = performance.now();
  let firstTokenMs = 0;
  const publish = () => update({ ...turn });
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: headers(settings),
      body: requestBody(history, settings),
      signal,
    });
    if (!response.ok || !response.body) throw new Error(await errorText(response));
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      for (const payload of parser.feed(value)) {
        if (payload === "[DONE]") continue;
        const chunk = JSON.parse(payload);
        if (chunk.error) throw new Error(chunk.error.message ?? "The server reported an error.");
        const choice = chunk.choices?.[0];
        if (choice) {
          if (firstTokenMs === 0) firstTokenMs = performance.now() - started;
          addDelta(turn, choice.delta ?? {});
          if (choice.finish_reason) turn.finish = choice.finish_reason;
        }
        if (chunk.usage) addUsage(turn, chunk, firstTokenMs);
      }
      publish();
    }
    turn.finish ??= "connection closed";
  } catch (error) {
    if (signal.aborted) turn.finish = "stopped";
    else turn.error = error instanceof Error ? error.message : String(error);
  }
  publish();
}
