import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { fetchServerInfo, streamTurn, type ServerInfo, type Settings, type Turn } from "./api";
import { Message } from "./message";
import { SettingsPanel } from "./settings";
import { loadChat, loadSettings, saveChat, saveSettings } from "./store";

/** Server facts, asked for again until the model has loaded. */
function useServerInfo(): { info: ServerInfo | null; problem: string } {
  const [info, setInfo] = useState<ServerInfo | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let timer = 0;
    const ask = async () => {
      try {
        setInfo(await fetchServerInfo());
        setProblem("");
      } catch (error) {
        setProblem(error instanceof Error ? error.message : String(error));
        timer = window.setTimeout(ask, 2000);
      }
    };
    void ask();
    return () => window.clearTimeout(timer);
  }, []);
  return { info, problem };
}

/** Keeps the newest line in view while the reader is at the bottom. */
function useStickyScroll(turns: Turn[]) {
  const ref = useRef<HTMLElement>(null);
  const atBottom = useRef(true);
  const onScroll = () => {
    const box = ref.current!;
    atBottom.current = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  };
  useEffect(() => {
    if (atBottom.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  }, [turns]);
  return { ref, onScroll };
}

function Composer({ busy, onSend, onStop }: { busy: boolean; onSend: (text: string) => void; onStop: () => void }) {
  // A link may fill the box in, but never send it.
  const [text, setText] = useState(() => new URLSearchParams(location.search).get("q") ?? "");
  const send = () => {
    if (!busy && text.trim()) {
      onSend(text);
      setText("");
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  };
  return (
    <form class="composer" onSubmit={(event) => (event.preventDefault(), send())}>
      <textarea
        rows={Math.min(8, text.split("\n").length)}
        value={text}
        placeholder="Ask something"
        aria-label="Message"
        autofocus
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {busy ? (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button type="submit" disabled={!text.trim()}>
          Send
        </button>
      )}
    </form>
  );
}

export function App() {
  const { info, problem } = useServerInfo();
  const [settings, setSettings] = useState<Settings>(loadSettings);
  const [turns, setTurns] = useState<Turn[]>(loadChat);
  const [showSettings, setShowSettings] = useState(false);
  const running = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(false);
  const scroll = useStickyScroll(turns);

  useEffect(() => saveSettings(settings), [settings]);
  useEffect(() => {
    if (!busy) saveChat(turns);
  }, [turns, busy]);

  const answer = useCallback(
    async (history: Turn[]) => {
      const controller = new AbortController();
      running.current = controller;
      setBusy(true);
      setTurns([...history, { role: "assistant", content: "" }]);
      await streamTurn(history, settings, controller.signal, (turn) => setTurns([...history, turn]));
      running.current = null;
      setBusy(false);
    },
    [settings],
  );

  const stop = () => running.current?.abort();
  const clear = () => {
    stop();
    setTurns([]);
  };

  return (
    <div class="page">
      <header>
        <h1>dsv4v</h1>
        <span class={info ? "status ok" : "status"} title={problem}>
          {info ? info.model : problem || "connecting"}
        </span>
        <span class="spacer" />
        <button type="button" class="quiet" onClick={clear} disabled={turns.length === 0}>
          New chat
        </button>
        <button type="button" class="quiet" aria-expanded={showSettings} onClick={() => setShowSettings(!showSettings)}>
          Settings
        </button>
      </header>
      {info?.notice && <p class="notice">{info.notice}</p>}
      <div class="body">
        <main ref={scroll.ref} onScroll={scroll.onScroll} aria-live="polite">
          {turns.length === 0 && <p class="empty">Write a message to begin.</p>}
          {turns.map((turn, index) => {
            const last = index === turns.length - 1;
            const retry = last && !busy ? () => answer(turns.slice(0, index)) : undefined;
            return <Message key={index} turn={turn} live={busy && last} onRetry={retry} />;
          })}
        </main>
        {showSettings && (
          <SettingsPanel settings={settings} onChange={setSettings} onClose={() => setShowSettings(false)} />
        )}
      </div>
      <Composer busy={busy} onStop={stop} onSend={(text) => void answer([...turns, { role: "user", content: text }])} />
    </div>
  );
}
