import type { Terminal } from "@xterm/xterm";
import { type Cast, type CastEvent, castSize, countUntil } from "./asciicast.ts";

/** Written to the terminal at a time when somebody seeks. */
const PIECE_CHARACTERS = 256 * 1024;

export interface PlayerState {
  /** In seconds. */
  at: number;
  is_playing: boolean;
}

function showEvents(terminal: Terminal, events: readonly CastEvent[]): void {
  let text = "";
  const write = (): void => {
    if (text !== "") terminal.write(text);
    text = "";
  };
  for (const event of events) {
    if (event.kind === "output") text += event.text;
    if (text.length > PIECE_CHARACTERS) write();
    const size = event.kind === "resize" ? castSize(event.text) : undefined;
    if (size === undefined) continue;
    write();
    // In its turn: what was written before was shown in the old size.
    terminal.write("", () => terminal.resize(size.cols, size.rows));
  }
  write();
}

/** Plays a recording in a terminal. `onChange` is called at each frame while it plays. */
export function createPlayer(terminal: Terminal, cast: Cast, onChange: (state: PlayerState) => void) {
  let [shown, at, speed] = [0, 0, 1];
  let is_playing = false;
  let frame: number | undefined;
  let last_ms: number | undefined;

  const tell = (): void => onChange({ at, is_playing });
  /** Shows the events up to now. */
  const show = (): void => {
    const until = countUntil(cast.events, at);
    showEvents(terminal, cast.events.slice(shown, until));
    shown = until;
  };
  const step = (now_ms: number): void => {
    frame = undefined;
    if (last_ms !== undefined) at = Math.min(cast.duration, at + ((now_ms - last_ms) / 1_000) * speed);
    last_ms = now_ms;
    show();
    if (at >= cast.duration) return pause();
    tell();
    frame = requestAnimationFrame(step);
  };
  const pause = (): void => {
    is_playing = false;
    if (frame !== undefined) cancelAnimationFrame(frame);
    frame = undefined;
    last_ms = undefined;
    tell();
  };
  const seek = (seconds: number): void => {
    const next = Math.min(cast.duration, Math.max(0, seconds));
    if (next < at) {
      terminal.reset();
      terminal.resize(cast.cols, cast.rows);
      shown = 0;
    }
    at = next;
    show();
    tell();
  };
  return {
    play(): void {
      if (is_playing) return;
      if (at >= cast.duration) seek(0);
      is_playing = true;
      last_ms = undefined;
      frame = requestAnimationFrame(step);
      tell();
    },
    pause,
    seek,
    setSpeed(next: number): void {
      speed = next;
    },
    get at(): number {
      return at;
    },
    get is_playing(): boolean {
      return is_playing;
    },
  };
}

export type Player = ReturnType<typeof createPlayer>;
