import { type Cast, type CastEvent, castSize, countUntil } from "./asciicast.ts";
import type { OpenedTerminal } from "./terminal.ts";

/** The terminal that plays a recording. */
type Shown = Pick<OpenedTerminal, "terminal" | "writer">;

export interface PlayerState {
  /** Position in seconds. */
  at: number;
  is_playing: boolean;
}

function showEvents({ terminal, writer }: Shown, events: readonly CastEvent[]): void {
  let text = "";
  let size: { cols: number; rows: number } | undefined;
  const write = (): void => {
    if (text !== "") writer.write(text);
    text = "";
  };
  // Resize only after all earlier output, which belongs to the old size.
  const resize = (): void => {
    const now = size;
    if (now !== undefined) writer.after(() => terminal.resize(now.cols, now.rows));
    size = undefined;
  };
  for (const event of events) {
    if (event.kind === "output") {
      resize();
      text += event.text;
    } else if (event.kind === "resize") {
      write();
      // Of consecutive resizes only the last one applies.
      size = castSize(event.text) ?? size;
    }
  }
  write();
  resize();
}

/** Plays a recording in a terminal. Calls `onChange` for each animation frame while playing. */
export function createPlayer(on: Shown, cast: Cast, onChange: (state: PlayerState) => void) {
  let [shown, at, speed] = [0, 0, 1];
  let is_playing = false;
  let frame: number | undefined;
  let last_ms: number | undefined;

  const tell = (): void => onChange({ at, is_playing });
  /** Writes the events up to the current position. */
  const show = (): void => {
    const until = countUntil(cast.events, at);
    showEvents(on, cast.events.slice(shown, until));
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
      on.writer.clear();
      on.writer.after(() => {
        on.terminal.reset();
        on.terminal.resize(cast.cols, cast.rows);
      });
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
