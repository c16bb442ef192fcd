import process from "node:process";
import { createColors } from "picocolors";
import type { Failure } from "./failure.ts";
import { plain, render, Styled } from "./text.ts";

export type Colors = ReturnType<typeof createColors>;
type Tone = "good" | "bad" | "busy" | "quiet" | "strong";

const TONES: Record<string, Tone> = {
  online: "good",
  applied: "good",
  active: "good",
  stored: "good",
  ok: "good",
  in_sync: "good",
  current: "good",
  failed: "bad",
  rolled_back: "bad",
  error: "bad",
  fatal: "bad",
  revoked: "bad",
  suspended: "bad",
  warn: "busy",
  rolling_back: "busy",
  in_progress: "busy",
  cancelling: "busy",
  awaiting_upload: "busy",
  pending: "busy",
  offline: "quiet",
  never_connected: "quiet",
  cancelled: "quiet",
  expired: "quiet",
  exhausted: "quiet",
  debug: "quiet",
  trace: "quiet",
};

export interface Column<T> {
  title: string;
  value: (row: T) => unknown;
}

/** The two streams. Colours and anything that moves are for terminals only. */
export class Output {
  readonly json: boolean;
  readonly #colors: Colors;
  readonly #error_colors: Colors;

  constructor(options: { json: boolean; colors: boolean }) {
    this.json = options.json;
    this.#colors = createColors(options.colors && process.stdout.isTTY);
    this.#error_colors = createColors(options.colors && process.stderr.isTTY);
  }

  /** True when a line on stderr can be written over. */
  get can_animate(): boolean {
    return process.stderr.isTTY && !this.json;
  }

  /** Escaped, in the colour of its tone. */
  paint(tone: Tone, value: unknown): Styled {
    return new Styled(tones(this.#colors)[tone](plain(value)));
  }

  /** A status word in the colour it deserves. */
  status(word: string): Styled {
    const tone = TONES[word];
    return tone === undefined ? new Styled(plain(word)) : this.paint(tone, word);
  }

  /** Text for people on stdout; make it with the `line` template. */
  line(text = ""): void {
    process.stdout.write(`${text}\n`);
  }

  /** Text for people that is not the result, on stderr. */
  note(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  /** The one JSON document of this call: indented for a terminal, else on one line. */
  document(value: unknown): void {
    process.stdout.write(`${JSON.stringify(value, undefined, process.stdout.isTTY ? 2 : undefined)}\n`);
  }

  /** The result: as JSON when asked for, else as `people` writes it. */
  async result(value: unknown, people: () => void | Promise<void>): Promise<void> {
    if (this.json) this.document(value);
    else await people();
  }

  /** Rows in columns without borders. */
  async table<T>(rows: readonly T[], columns: readonly Column<T>[]): Promise<void> {
    const { default: Table } = await import("cli-table3");
    const edges = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"];
    const chars = Object.fromEntries(
      [...edges, "left", "left-mid", "mid", "mid-mid", "right", "right-mid", "middle"].map((edge) => [edge, ""]),
    );
    const table = new Table({ chars, style: { head: [], border: [], "padding-left": 0, "padding-right": 2 } });
    table.push(columns.map(({ title }) => this.paint("quiet", title).rendered));
    for (const row of rows) table.push(columns.map(({ value }) => render(value(row))));
    this.line(table.toString().replace(/ +$/gm, ""));
  }

  /** Names and values under each other; a value of undefined is left out. */
  details(pairs: readonly (readonly [string, unknown])[]): void {
    const shown = pairs.filter(([, value]) => value !== undefined);
    const width = Math.max(...shown.map(([name]) => name.length));
    for (const [name, value] of shown) this.line(`${this.paint("quiet", name.padEnd(width)).rendered}  ${render(value)}`);
  }

  /** The end of a command that did not succeed. */
  fail(failure: Failure, debug: boolean): void {
    const { red, dim } = this.#error_colors;
    if (this.json && failure.document !== undefined) this.document(failure.document);
    this.note(failure.bare ? plain(failure.message) : `${red("error:")} ${plain(failure.message)}`);
    for (const hint of failure.hints) this.note(dim(`  ${plain(hint)}`));
    if (debug) this.note(String((failure.cause instanceof Error ? failure.cause : failure).stack));
  }
}

const tones = (colors: Colors): Record<Tone, (text: string) => string> => ({
  good: colors.green,
  bad: colors.red,
  busy: colors.yellow,
  quiet: colors.dim,
  strong: colors.bold,
});
