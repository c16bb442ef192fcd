import process from "node:process";
import { createColors } from "picocolors";
import type { Failure } from "./failure.ts";
import type { OutputFormat } from "./formats.ts";
import { jsonText, plain, render, Styled } from "./text.ts";

export type Colors = ReturnType<typeof createColors>;
type Tone = "good" | "bad" | "busy" | "quiet" | "strong";

/** No object: a robot may call a status `constructor`. */
const TONES = new Map<string, Tone>(
  Object.entries({
    online: "good",
    applied: "good",
    active: "good",
    stored: "good",
    ok: "good",
    in_sync: "good",
    current: "good",
    failed: "bad",
    failing: "bad",
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
  }),
);

const CLEAR_LINE = "\r\u001b[2K";

export interface Column<T> {
  title: string;
  value: (row: T) => unknown;
  /** Shown with `-o wide`, or when --columns names it. */
  wide?: boolean;
}

export interface OutputOptions {
  format: OutputFormat;
  /** Whether tables begin with their titles. */
  headers: boolean;
  /** Names of the columns to show, in this order; undefined shows those of the format. */
  columns: readonly string[] | undefined;
  /** Shows what is longer than the terminal; undefined prints it. */
  pager: { command: string; env: NodeJS.ProcessEnv } | undefined;
}

/** The two streams. Colours and anything that moves are for terminals only. */
export class Output {
  #options: OutputOptions;
  readonly #colors: Colors;
  readonly #error_colors: Colors;
  /** While a bar moves on stderr: what is said meanwhile takes its line, and the bar goes on below. */
  in_line = false;
  /** What is held back to see whether it is long enough for the pager. */
  #held: string[] | undefined;

  constructor(options: { format: OutputFormat; colors: boolean }) {
    this.#options = { format: options.format, headers: true, columns: undefined, pager: undefined };
    this.#colors = createColors(options.colors && process.stdout.isTTY);
    this.#error_colors = createColors(options.colors && process.stderr.isTTY);
  }

  /** Takes what flags and settings say; before it only errors are printed. */
  configure(options: OutputOptions): void {
    this.#options = options;
  }

  get format(): OutputFormat {
    return this.#options.format;
  }

  /** True when stdout is for programs: one document and nothing else. */
  get structured(): boolean {
    return this.#options.format === "json" || this.#options.format === "yaml";
  }

  /** True when a line on stderr can be written over. */
  get can_animate(): boolean {
    return process.stderr.isTTY && !this.structured;
  }

  /** Escaped, in the colour of its tone. */
  paint(tone: Tone, value: unknown): Styled {
    return new Styled(tones(this.#colors)[tone](plain(value)));
  }

  /** Escaped, in a colour that always is the same for this key: to tell one robot from another. */
  paintAs(key: string, value: unknown): Styled {
    const { cyan, magenta, blue, yellow, green, cyanBright, magentaBright, blueBright } = this.#colors;
    const all = [cyan, magenta, blue, yellow, green, cyanBright, magentaBright, blueBright];
    let sum = 0;
    for (const character of key) sum = (sum * 31 + (character.codePointAt(0) ?? 0)) % 1_000_003;
    return new Styled((all[sum % all.length] ?? cyan)(plain(value)));
  }

  /** A status word in the colour it deserves. */
  status(word: string): Styled {
    const tone = TONES.get(word);
    return tone === undefined ? new Styled(plain(word)) : this.paint(tone, word);
  }

  /** Text for people on stdout; make it with the `line` template. */
  line(text = ""): void {
    this.#write(`${text}\n`);
  }

  /** Text for people that is not the result, on stderr. */
  note(text: string): void {
    process.stderr.write(`${this.in_line ? CLEAR_LINE : ""}${text}\n`);
  }

  /** A line on stderr that the next one takes the place of; an empty one leaves nothing. For terminals only. */
  live(text: string): void {
    process.stderr.write(`${CLEAR_LINE}${text}`);
    this.in_line = text !== "";
  }

  /** The one document of this call: JSON is indented for a terminal, else on one line. */
  async document(value: unknown): Promise<void> {
    if (this.format === "yaml") this.#write((await import("./yaml-text.ts")).yamlText(value));
    else this.#write(`${jsonText(value, process.stdout.isTTY ? 2 : undefined)}\n`);
  }

  /** One of many documents that come by and by: JSON on a line each, YAML behind a line of dashes. */
  async record(value: unknown): Promise<void> {
    if (this.format === "yaml") this.#write(`---\n${(await import("./yaml-text.ts")).yamlText(value)}`);
    else this.#write(`${jsonText(value)}\n`);
  }

  /** The result: as a document when asked for, else as `people` writes it. What is long goes through the pager. */
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

  /** Rows in columns without borders. */
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

  async #choose<T>(columns: readonly Column<T>[]): Promise<readonly Column<T>[]> {
    const { columns: wanted, format } = this.#options;
    if (wanted === undefined) return columns.filter(({ wide }) => !wide || format === "wide");
    const named = new Map(columns.map((column) => [columnName(column.title), column]));
    return Promise.all(
      wanted.map(async (name) => {
        const column = named.get(columnName(name));
        if (column !== undefined) return column;
        const { usage } = await import("./failure.ts");
        throw usage(`there is no column ${name}`, `There are ${[...named.keys()].join(", ")}.`);
      }),
    );
  }

  /** Names and values under each other; a value of undefined is left out. */
  details(pairs: readonly (readonly [string, unknown])[]): void {
    const shown = pairs.filter(([, value]) => value !== undefined);
    const width = Math.max(...shown.map(([name]) => name.length));
    for (const [name, value] of shown) this.line(`${this.paint("quiet", name.padEnd(width)).rendered}  ${render(value)}`);
  }

  /** The end of a command that did not succeed. */
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

/** A title as it is typed behind --columns: `LAST SEEN` is `last-seen`. */
const columnName = (title: string): string => title.trim().toLowerCase().replaceAll(/[ _]/g, "-");
