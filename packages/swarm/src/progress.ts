import type { Clock, Timer } from "@roamfleet/clock";
import type { Fleet } from "./fleet.ts";

/** The output of the swarm. A terminal shows one line that is updated. */
export interface Screen {
  is_terminal: boolean;
  /** Width of the terminal. */
  columns: () => number;
  write: (text: string) => void;
}

const TERMINAL_MS = 250;
const PLAIN_MS = 5_000;
const TAGS_SHOWN = 3;
const BAR_CELLS = 20;
const CLEAR_LINE = "\r\u001b[K";

/** Shows the progress of a swarm's robots until `stop`. Without a terminal: one line every five seconds if something changed. */
export class Progress {
  readonly #fleet: Fleet;
  readonly #robots: number;
  readonly #screen: Screen;
  readonly #clock: Clock;
  readonly #timer: Timer;
  #before: { at: number; reports: number };
  #last_line = "";

  constructor(fleet: Fleet, robots: number, screen: Screen, clock: Clock) {
    this.#fleet = fleet;
    this.#robots = robots;
    this.#screen = screen;
    this.#clock = clock;
    this.#before = { at: clock.monotonic(), reports: 0 };
    this.#timer = clock.every(screen.is_terminal ? TERMINAL_MS : PLAIN_MS, () => this.#show());
  }

  /** Prints a permanent line. */
  say(line: string): void {
    this.#screen.write(`${this.#screen.is_terminal ? CLEAR_LINE : ""}${line}\n`);
  }

  stop(): void {
    this.#timer.cancel();
    if (this.#fleet.tally.enrolled > 0) this.#show();
    if (this.#screen.is_terminal) this.#screen.write("\n");
  }

  #show(): void {
    const now = this.#clock.monotonic();
    const { tally, connected } = this.#fleet;
    const seconds = Math.max(0.001, (now - this.#before.at) / 1_000);
    const rate = Math.round((tally.reports - this.#before.reports) / seconds);
    this.#before = { at: now, reports: tally.reports };
    const line = describeFleet(this.#robots, connected, tally);
    if (this.#screen.is_terminal) {
      const text = `${bar(connected / this.#robots)} ${line}${rate > 0 ? ` · ${rate} reports/s` : ""}`;
      return this.#screen.write(CLEAR_LINE + text.slice(0, Math.max(1, this.#screen.columns() - 1)));
    }
    if (line === this.#last_line) return;
    this.#last_line = line;
    this.#screen.write(`${line}${rate > 0 ? ` · ${rate} reports/s` : ""}\n`);
  }
}

/**
 * Formats the progress of a swarm. Example: `100 robots: 100 enrolled, 98 connected · 3 downloading · ended: 90 applied, 5 rolled back ·
 * running: 1.1 90, 1.0 10`.
 */
export function describeFleet(robots: number, connected: number, tally: Fleet["tally"]): string {
  const under_way = [...tally.under_way].filter(([, count]) => count > 0).map(([status, count]) => `${count} ${status.replace("_", " ")}`);
  const ended = Object.entries(tally.ended)
    .filter(([, count]) => count > 0)
    .map(([status, count]) => `${count} ${status.replace("_", " ")}`);
  const tags = tally.running();
  const running = tags.slice(0, TAGS_SHOWN).map(([tag, count]) => `${count} × ${tag}`);
  return [
    `${robots} robots: ${tally.enrolled} enrolled, ${connected} connected`,
    ...(under_way.length > 0 ? [under_way.join(", ")] : []),
    ...(ended.length > 0 ? [`ended: ${ended.join(", ")}`] : []),
    ...(running.length > 0 ? [`running: ${running.join(", ")}${tags.length > TAGS_SHOWN ? ", …" : ""}`] : []),
  ].join(" · ");
}

function bar(part: number): string {
  const full = Math.round(Math.min(1, part) * BAR_CELLS);
  return `[${"█".repeat(full)}${"░".repeat(BAR_CELLS - full)}]`;
}
