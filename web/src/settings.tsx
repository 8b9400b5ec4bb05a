import type { Settings } from "./api";

interface Props {
  settings: Settings;
  onChange: (settings: Settings) => void;
  onClose: () => void;
}

export function SettingsPanel({ settings, onChange, onClose }: Props) {
  const set = <K extends keyof Settings>(key: K, value: Settings[K]) =>
    onChange({ ...settings, [key]: value });
  const number = (key: "temperature" | "topP" | "maxTokens") => (event: Event) => {
    const value = Number((event.currentTarget as HTMLInputElement).value);
    if (Number.isFinite(value)) set(key, value);
  };
  return (
    <aside class="settings" aria-label="Settings">
      <div class="settings-head">
        <h2>Settings</h2>
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </div>
      <label>
        System prompt
        <textarea
          rows={4}
          value={settings.system}
          onInput={(event) => set("system", event.currentTarget.value)}
        />
      </label>
      <label class="row">
        <input
          type="checkbox"
          checked={settings.thinking}
          onChange={(event) => set("thinking", event.currentTarget.checked)}
        />
        Think before answering
      </label>
      <label>
        Effort
        <select
          value={settings.effort}
          disabled={!settings.thinking}
          onChange={(event) => set("effort", event.currentTarget.value as Settings["effort"])}
        >
          <option value="low">low</option>
          <option value="high">high</option>
          <option value="max">max</option>
        </select>
      </label>
      <label>
        Temperature
        <input type="number" min="0" max="2" step="0.1" value={settings.temperature} onChange={number("temperature")} />
      </label>
      <label>
        Top p
        <input type="number" min="0.01" max="1" step="0.01" value={settings.topP} onChange={number("topP")} />
      </label>
      <label>
        Longest answer in tokens (0 = no limit)
        <input type="number" min="0" step="1" value={settings.maxTokens} onChange={number("maxTokens")} />
      </label>
      <label>
        API key (kept until this page is closed)
        <input
          type="password"
          autocomplete="off"
          value={settings.apiKey}
          onInput={(event) => set("apiKey", event.currentTarget.value)}
        />
      </label>
    </aside>
  );
}
