// What the page remembers on this device. Broken or foreign content counts as nothing stored.
import { defaultSettings, type Settings, type Turn } from "./api";

const settingsKey = "dsv4v.settings";
const chatKey = "dsv4v.chat";

function read(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

function write(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // storage full or forbidden: the chat goes on without it
  }
}

export function loadSettings(): Settings {
  const stored = read(settingsKey);
  return { ...defaultSettings, ...(typeof stored === "object" ? stored : {}) };
}

/** The API key stays in memory only. */
export function saveSettings(settings: Settings): void {
  write(settingsKey, { ...settings, apiKey: "" });
}

export function loadChat(): Turn[] {
  const stored = read(chatKey);
  if (!Array.isArray(stored)) return [];
  return stored.filter(
    (turn) => typeof turn?.content === "string" && (turn.role === "user" || turn.role === "assistant"),
  );
}

export function saveChat(turns: Turn[]): void {
  write(chatKey, turns);
}
