import { StringDecoder } from "node:string_decoder";

/** A sample as a program of the robot gives it. */
export interface GivenSample {
  name: string;
  labels: Record<string, string>;
  value: number;
  /** Milliseconds since 1970 by the robot's clock; undefined: now. */
  time?: number;
}

/** Maximum characters of a line. Longer ones are invalid. The parser keeps at most one incomplete line in memory. */
export const LINE_CHARACTERS_MAX = 16 * 1024;

interface ExpositionOptions {
  /** Whether timestamps are seconds, as in OpenMetrics, or milliseconds. */
  is_open_metrics: boolean;
  sample: (sample: GivenSample) => void;
  /** Called with each line that has another format, or is too long. */
  invalid: (line: string) => void;
}

/** Parses a stream in the Prometheus text format 0.0.4 or OpenMetrics. Comments and exemplars are ignored. */
export class ExpositionParser {
  readonly #options: ExpositionOptions;
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  /** Whether the start of the current line was dropped because the line is too long. */
  #is_cut = false;

  constructor(options: ExpositionOptions) {
    this.#options = options;
  }

  write(bytes: Uint8Array): void {
    const text = this.#rest + this.#decoder.write(bytes);
    let from = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", from)) {
      this.#line(text.slice(from, end));
      from = end + 1;
    }
    this.#rest = text.slice(from);
    if (this.#rest.length <= LINE_CHARACTERS_MAX) return;
    if (!this.#is_cut) this.#options.invalid(this.#rest);
    this.#is_cut = true;
    this.#rest = "";
  }

  /** Parses the last line if it has no line break. */
  end(): void {
    this.#line(this.#rest + this.#decoder.end());
    this.#rest = "";
  }

  #line(line: string): void {
    const { is_open_metrics, sample, invalid } = this.#options;
    if (this.#is_cut) {
      this.#is_cut = false;
      return;
    }
    const text = line.trim();
    if (text === "" || text.startsWith("#")) return;
    const found = line.length > LINE_CHARACTERS_MAX ? undefined : parseLine(text, is_open_metrics ? 1_000 : 1);
    if (found === undefined) invalid(line);
    else sample(found);
  }
}

/** Name and text between the braces. The alternatives begin with different characters, so matching takes linear time. */
const SERIES = /^([^\s{}",]*)\s*(?:\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})?/;
/** `name="value"`, or a quoted name without a value, which is the name of the metric. */
const LABEL = /\s*(?:([^\s{}",=]+)|"((?:[^"\\]|\\.)*)")\s*(?:=\s*"((?:[^"\\]|\\.)*)"\s*)?(?:,|$)/y;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const INFINITY = /^([+-]?)inf(?:inity)?$/i;
const NOT_A_NUMBER = /^[+-]?nan$/i;

function parseLine(line: string, milliseconds: number): GivenSample | undefined {
  const [whole, plain_name, braces = ""] = SERIES.exec(line) ?? [""];
  const tokens = line.slice(whole.length).trim().split(/\s+/);
  const exemplar = tokens.indexOf("#");
  const [value_text = "", time_text, ...more] = exemplar === -1 ? tokens : tokens.slice(0, exemplar);
  const series = parseLabels(braces);
  const value = parseNumber(value_text);
  const time = time_text === undefined ? undefined : parseNumber(time_text);
  if (series === undefined || value === undefined || more.length > 0) return undefined;
  const name = series.name ?? plain_name;
  if (!name || (time_text !== undefined && !Number.isFinite(time)) || (series.name !== undefined && plain_name !== "")) return undefined;
  return { name, labels: series.labels, value, ...(time === undefined ? {} : { time: time * milliseconds }) };
}

function parseLabels(text: string): { name?: string; labels: Record<string, string> } | undefined {
  const labels = new Map<string, string>();
  let name: string | undefined;
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.trimEnd().length) {
    const match = LABEL.exec(text);
    if (match === null) return undefined;
    const [, plain, quoted, value] = match;
    const label = plain ?? unescaped(quoted ?? "");
    if (value !== undefined && !labels.has(label)) labels.set(label, unescaped(value));
    else if (value === undefined && plain === undefined && name === undefined) name = label;
    else return undefined;
  }
  return { labels: Object.fromEntries(labels), ...(name === undefined ? {} : { name }) };
}

const unescaped = (text: string): string =>
  text.includes("\\") ? text.replace(/\\(["\\n])/g, (_, character: string) => (character === "n" ? "\n" : character)) : text;

function parseNumber(text: string): number | undefined {
  if (NUMBER.test(text)) return Number(text);
  if (NOT_A_NUMBER.test(text)) return Number.NaN;
  const sign = INFINITY.exec(text)?.[1];
  return sign === undefined ? undefined : sign === "-" ? -Infinity : Infinity;
}
