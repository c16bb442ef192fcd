import { once } from "node:events";
import process from "node:process";
import { createColors } from "picocolors";
import type { Failure } from "./failure.ts";
import { jsonText, plain, render, Styled } from "./text.ts";

export type Colors = ReturnType<typeof createColors>;
type Tone = "good" | "bad" | "busy" | "quiet" | "strong";

/** The color tone of each status word. It is a Map, because an object also has inherited properties, such as `constructor`. */
const TONES = new Map<string, Tone>(
  Object.entries({
    online: "good",
    applied: "good",
    active: "good",
    stored: "good",
    ok: "good",
    in_sync: "good",
    current: "good",
    enabled: "good",
    resolved: "good",
    failed: "bad",
    critical: "bad",
    open: "bad",
    failing: "bad",
    rolled_back: "bad",
    error: "bad",
    fatal: "bad",
    revoked: "bad",
    suspended: "bad",
    warn: "busy",
    warning: "busy",
    acknowledged: "busy",
    rolling_back: "busy",
    in_progress: "busy",
    cancelling: "busy",
    awaiting_upload: "busy",
    pending: "busy",
    offline: "quiet",
    disabled: "quiet",
    never_connected: "quiet",
    cancelled: "quiet",
    expired: "quiet",
    exhausted: "quiet",
    debug: "quiet",
    trace: "quiet",
  }),
);

const CLEAR_LINE = "\r\u001b[2K";

export interface Column<T> {
  title: string;
  value: (row: T) => unknown;
  /** Whether tables show the column only with `-o wide` or when --columns lists it. */
  wide?: boolean;
}

export interface OutputOptions {
  format: OutputFormat;
  /** Whether tables start with a header row. */
  headers: boolean;
  /** The columns to show, in this order; undefined shows those of the format. */
  columns: readonly string[] | undefined;
  /** The pager that shows output longer than the terminal; undefined: all output is printed. */
  pager: { command: string; env: NodeJS.ProcessEnv } | undefined;
}

/** The two output streams. Colors and animation are for terminals only. */
export class Output {
  #options: OutputOptions;
  readonly #colors: Colors;
  readonly #error_colors: Colors;
  /** True while stderr shows a progress bar. A note then replaces the bar's line, and the bar is drawn again below. */
  in_line = false;
  /** Output that is buffered until its length decides whether to use the pager; undefined: output is not buffered. */
  #held: string[] | undefined;

  constructor(options: { format: OutputFormat; colors: boolean }) {
    this.#options = { format: options.format, headers: true, columns: undefined, pager: undefined };
    this.#colors = createColors(options.colors && process.stdout.isTTY);
    this.#error_colors = createColors(options.colors && process.stderr.isTTY);
  }

  /** Applies flags and settings. Before this call, only errors are printed. */
  configure(options: OutputOptions): void {
    this.#options = options;
  }

  get format(): OutputFormat {
    return this.#options.format;
  }

  /** True if stdout must contain exactly one document. */
  get structured(): boolean {
    return this.#options.format === "json" || this.#options.format === "yaml";
  }

  /** True if a line on stderr can be overwritten. */
  get can_animate(): boolean {
    return process.stderr.isTTY && !this.structured;
  }

  /** Escapes the text of a value and applies the color of `tone`. */
  paint(tone: Tone, value: unknown): Styled {
    return new Styled(tones(this.#colors)[tone](plain(value)));
  }

  /** Escapes text and applies a color that is stable for this key, to distinguish robots. */
  paintAs(key: string, value: unknown): Styled {
    const { cyan, magenta, blue, yellow, green, cyanBright, magentaBright, blueBright } = this.#colors;
    const all = [cyan, magenta, blue, yellow, green, cyanBright, magentaBright, blueBright];
    let sum = 0;
    for (const character of key) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 1_000_003;
    return new Styled((all[sum % all.length] ?? cyan)(plain(value)));
  }

  /** Formats a status word in its color. */
  status(word: string): Styled {
    const tone = TONES.get(word);
    return tone === undefined ? new Styled(plain(word)) : this.paint(tone, word);
  }

  /** Prints human-readable text on stdout; build it with the `line` template. */
  line(text = ""): void {
    this.#write(`${text}\n`);
  }

  /** Prints human-readable text that is not the result, on stderr. */
  note(text: string): void {
    process.stderr.write(`${this.in_line ? CLEAR_LINE : ""}${text}\n`);
  }

  /** Shows a status line on stderr, which must be a terminal. The next call replaces the line; an empty string removes it. */
  live(text: string): void {
    process.stderr.write(`${CLEAR_LINE}${text}`);
    this.in_line = text !== "";
  }

  /** Prints the only document of this call: JSON is indented on a terminal, otherwise on one line. */
  async document(value: unknown): Promise<void> {
    if (this.format === "yaml") this.#write((await import("./yaml-text.ts")).yamlText(value));
    else this.#write(`${jsonText(value, process.stdout.isTTY ? 2 : undefined)}\n`);
  }

  /** Prints one document of a stream: as one line of JSON, or as YAML after a `---` line. */
  async record(value: unknown): Promise<void> {
    if (this.format === "yaml") this.#write(`---\n${(await import("./yaml-text.ts")).yamlText(value)}`);
    else this.#write(`${jsonText(value)}\n`);
  }

  /** Prints the result: as a JSON or YAML document if requested, otherwise by calling `people`. Long output goes through the pager. */
  async result(value: unknown, people: () => void | Promise<void>): Promise<void> {
    const { pager } = this.#options;
    const show = async (): Promise<void> => (this.structured ? this.document(value) : people());
    if (pager === undefined || !process.stdout.isTTY) return show();
    this.#held = [];
    try {
      await show();
    } finally {
      const text = this.#held.join("");
      this.#held = undefined;
      const { isLong, page } = await import("./pager.ts");
      const [columns, rows] = process.stdout.getWindowSize();
      const paged = isLong(text, { columns: columns || 80, rows: rows || 24 }) && (await page(text, pager));
      if (!paged) this.#write(text);
    }
  }

  #write(text: string): void {
    if (this.#held === undefined) process.stdout.write(text);
    else this.#held.push(text);
  }

  /**
   * Resolves when stdout has room for more, or when `signal` aborts. Commands that run until interrupted await this, so that unread output
   * does not accumulate in memory.
   */
  async drained(signal: AbortSignal): Promise<void> {
    if (process.stdout.writableNeedDrain) await once(process.stdout, "drain", { signal }).catch(() => {});
  }

  /** Prints rows in columns without borders. */
  async table<T>(rows: readonly T[], columns: readonly Column<T>[]): Promise<void> {
    const { default: Table } = await import("cli-table3");
    const shown = await this.#choose(columns);
    const edges = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"];
    const chars = Object.fromEntries(
      [...edges, "left", "left-mid", "mid", "mid-mid", "right", "right-mid", "middle"].map((edge) => [edge, ""]),
    );
    const table = new Table({ chars, style: { head: [], border: [], "padding-left": 0, "padding-right": 2 } });
    if (this.#options.headers) table.push(shown.map(({ title }) => this.paint("quiet", title).rendered));
    for (const row of rows) table.push(shown.map(({ value }) => render(value(row))));
    this.line(table.toString().replace(/ +$/gm, ""));
  }

  /** Returns whether a table shows a column that only wide tables have. It does with `-o wide`, or if --columns lists the column. */
  showsWide(title: string): boolean {
    const { columns, format } = this.#options;
    return columns === undefined ? format === "wide" : columns.includes(columnName(title));
  }

  async #choose<T>(columns: readonly Column<T>[]): Promise<readonly Column<T>[]> {
    const { columns: wanted, format } = this.#options;
    if (wanted === undefined) return columns.filter(({ wide }) => !wide || format === "wide");
    const named = new Map(columns.map((column) => [columnName(column.title), column]));
    return Promise.all(
      wanted.map(async (name) => {
        const column = named.get(columnName(name));
        if (column !== undefined) return column;
        const { usage } = await import("./failure.ts");
        throw usage(`unknown column ${name}`, `Available columns: ${[...named.keys()].join(", ")}.`);
      }),
    );
  }

  /** Prints names and values line by line; undefined values are omitted. */
  details(pairs: readonly (readonly [string, unknown])[]): void {
    const shown = pairs.filter(([, value]) => value !== undefined);
    const width = Math.max(...shown.map(([name]) => name.length));
    for (const [name, value] of shown) this.line(`${this.paint("quiet", name.padEnd(width)).rendered}  ${render(value)}`);
  }

  /** Prints the error of a failed command. */
  async fail(failure: Failure, debug: boolean): Promise<void> {
    const { red, dim } = this.#error_colors;
    if (this.structured && failure.document !== undefined) await this.document(failure.document);
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

/** Returns a title as typed after --columns: `LAST SEEN` is `last-seen`. */
const columnName = (title: string): string => title.trim().toLowerCase().replaceAll(/[ _]/g, "-");

export const OUTPUT_FORMATS = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export const isOutputFormat = (text: string | undefined): text is OutputFormat => OUTPUT_FORMATS.some((format) => format === text);

/**
 * Returns the output format in unparsed arguments; undefined if there is none. Errors in parsing the arguments are printed in that format
 * too.
 */
export function scanFormat(args: readonly string[]): OutputFormat | undefined {
  let found: string | undefined;
  for (const [at, word] of args.entries()) {
    if (word === "--") break;
    if (word === "--json") found = "json";
    else if (word === "-o" || word === "--output") found = args[at + 1];
    else found = /^(?:-o=?|--output=)(\w+)$/.exec(word)?.[1] ?? found;
  }
  return isOutputFormat(found) ? found : undefined;
}
