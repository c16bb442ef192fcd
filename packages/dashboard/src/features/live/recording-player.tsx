import { Pause, Play, SkipBack, SkipForward } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { Checkbox, cx, IconButton } from "../../ui/index.ts";
import { type Cast, type CastEvent, castSize, clockText, countUntil, shortenPauses } from "./asciicast.ts";
import { type OpenedTerminal, openTerminal } from "./terminal.ts";

const SPEEDS = [0.5, 1, 2, 4, 8];
const STEP_S = 5;
const IDLE_MAX_S = 2;

/** Plays a shell recording. Space plays and pauses, arrow keys seek, < and > change the speed. */
export function RecordingPlayer({ cast: whole }: { cast: Cast }) {
  const [short, setShort] = useState(true);
  const cast = useMemo(() => shortenPauses(whole, short ? IDLE_MAX_S : undefined), [whole, short]);
  const holder = useRef<HTMLDivElement>(null);
  const [speed, setSpeed] = useState(1);
  const { player, state } = usePlayer(holder, cast, speed);
  const faster = (by: number): void => setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(speed) + by))] ?? 1);
  const toggle = (): void => (state.is_playing ? player?.pause() : player?.play());
  const press = (event: KeyboardEvent): void => {
    if (event.target instanceof Element && event.target.closest("button, select, input, label") !== null && event.key === " ") return;
    const act: Record<string, () => void> = {
      " ": toggle,
      k: toggle,
      ArrowLeft: () => player?.seek(state.at - STEP_S),
      ArrowRight: () => player?.seek(state.at + STEP_S),
      Home: () => player?.seek(0),
      End: () => player?.seek(cast.duration),
      "<": () => faster(-1),
      ">": () => faster(1),
    };
    const does = act[event.key];
    if (does === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  };
  return (
    <div role="group" aria-label="Recording player" tabIndex={-1} onKeyDownCapture={press} className="space-y-2 outline-none">
      <div
        className="max-w-full overflow-auto rounded-lg border border-line bg-sunken p-2"
        tabIndex={0}
        role="region"
        aria-label="Shell output"
        data-terminal
      >
        <div ref={holder} className="w-max" />
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <IconButton label="Go to start" icon={SkipBack} size={16} onClick={() => player?.seek(0)} />
        <IconButton
          look="primary"
          label={state.is_playing ? "Pause" : "Play"}
          icon={state.is_playing ? Pause : Play}
          size={16}
          onClick={toggle}
        />
        <IconButton label="Go to end" icon={SkipForward} size={16} onClick={() => player?.seek(cast.duration)} />
        <input
          type="range"
          aria-label="Position"
          aria-valuetext={`${clockText(state.at, cast.duration)} of ${clockText(cast.duration, cast.duration)}`}
          min={0}
          max={Math.max(0.01, cast.duration)}
          step={0.01}
          value={state.at}
          onChange={({ target }) => player?.seek(Number(target.value))}
          className="h-[24px] min-w-32 flex-1 accent-(--accent)"
        />
        <span className="text-muted tabular-nums" data-player-clock>
          {clockText(state.at, cast.duration)} / {clockText(cast.duration, cast.duration)}
        </span>
        <Speeds speed={speed} onSpeed={setSpeed} />
        <Checkbox label={`Shorten pauses to ${IDLE_MAX_S} s`} checked={short} onChange={setShort} />
      </div>
    </div>
  );
}

function Speeds({ speed, onSpeed }: { speed: number; onSpeed: (speed: number) => void }) {
  return (
    <div role="group" aria-label="Speed" className="flex">
      {SPEEDS.map((value) => (
        <button
          key={value}
          type="button"
          aria-pressed={speed === value}
          onClick={() => onSpeed(value)}
          className={cx("h-8 min-w-9 rounded px-1.5 text-xs hover:bg-hover", speed === value ? "bg-active font-semibold" : "text-muted")}
        >
          {value}×
        </button>
      ))}
    </div>
  );
}

function usePlayer(
  holder: React.RefObject<HTMLDivElement | null>,
  cast: Cast,
  speed: number,
): { player: Player | undefined; state: PlayerState } {
  const [player, setPlayer] = useState<Player>();
  const [state, setState] = useState<PlayerState>({ at: 0, is_playing: false });
  useEffect(() => {
    const element = holder.current;
    if (element === null) return undefined;
    let is_over = false;
    let end = (): void => {};
    void openTerminal(element, { cols: cast.cols, rows: cast.rows, read_only: true, label: "Recording" }).then((opened) => {
      if (is_over) return opened.dispose();
      const made = createPlayer(opened, cast, setState);
      end = () => {
        made.pause();
        opened.dispose();
      };
      setPlayer(made);
      made.play();
    });
    return () => {
      is_over = true;
      end();
    };
  }, [holder, cast]);
  useEffect(() => player?.setSpeed(speed), [player, speed]);
  return { player, state };
}

/** The terminal that plays a recording. */
type Shown = Pick<OpenedTerminal, "terminal" | "writer">;

interface PlayerState {
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
  // Resize the terminal only after all earlier output is drawn, because that output belongs to the old size.
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
function createPlayer(on: Shown, cast: Cast, onChange: (state: PlayerState) => void) {
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

type Player = ReturnType<typeof createPlayer>;
