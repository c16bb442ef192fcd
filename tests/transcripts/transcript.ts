/** A step of a transcript: a shell command, an action that is not a command, or a comment for the reader. */
export interface Step {
  kind: "$" | "%" | "#";
  text: string;
  /** The step's output as written in the transcript. */
  printed: string[];
}

export interface Printed {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Parses steps, which begin with `$`, `%` or `#`, with the lines of output after each. */
export function parseTranscript(text: string): Step[] {
  const steps: Step[] = [];
  for (const line of text.split("\n")) {
    const match = /^([$%#]) (.*)$/.exec(line);
    if (match !== null) steps.push({ kind: match[1] as Step["kind"], text: match[2]!, printed: [] });
    else if (line !== "") steps.at(-1)?.printed.push(line);
  }
  return steps;
}

export const writeTranscript = (steps: readonly Step[]): string =>
  steps.map(({ kind, text, printed }) => [`${kind} ${text}`, ...printed].join("\n")).join("\n\n") + "\n";

/** Formats output: stdout unchanged, stderr after `!`, and the exit code if not 0. Empty lines are omitted. */
export function describe({ code, stdout, stderr }: Printed): string[] {
  const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
  const out = lines(stdout).map((line) => (/^[$%#!\\]|^\[exit/.test(line) ? `\\${line}` : line));
  return [...out, ...lines(stderr).map((line) => `! ${line}`), ...(code === 0 ? [] : [`[exit ${code}]`])];
}

const ID = /\b(org|usr|tok|site|fleet|rob|rel|dep|tgt|cfg|cdep|key|evt|aud|sess|inc)_[0-9a-hj-np-tv-z]{26}\b/g;
const SECRET = /\brf_(org|user|enroll)_[0-9a-f]{64}\b/g;

const SIGNING_KEY = /\b[0-9a-f]{32}\b/g;

/** Replaces values that differ between runs by names: the id of the first site is `<site_1>`, also in commands. */
export class Names {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  /** Names a value in advance. */
  set(name: string, value: string): void {
    this.#names.set(value, `<${name}>`);
  }

  /** Replaces the names in a command line by their values. */
  fill(text: string): string {
    const values = new Map([...this.#names].map(([value, name]) => [name, value]));
    return text.replaceAll(/<[\w-]+>/g, (name) => values.get(name) ?? name);
  }

  hide(text: string): string {
    let hidden = text;
    for (const [value, name] of this.#names) hidden = hidden.replaceAll(value, name);
    return (
      hidden
        .replaceAll(SECRET, (value) => this.#nameOf(value, "secret"))
        .replaceAll(ID, (value, kind: string) => this.#nameOf(value, kind))
        .replaceAll(SIGNING_KEY, (value) => this.#nameOf(value, "signing-key"))
        .replaceAll(/\brf_(org|user|enroll)_[0-9a-f]{1,6}\b…?/g, "rf_$1_…")
        .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "<uuid>")
        .replaceAll(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
        .replaceAll(/\bjust now\b|\b(?:in )?\d+ (?:s|min|h|d)\b(?: ago)?/g, (time) => (time.startsWith("in ") ? "in <duration>" : "<ago>"))
        .replaceAll(/SHA256:[\w+/=]+/g, "<fingerprint>")
        .replaceAll(/next_cursor: \w+/g, (cursor) => (cursor.endsWith("null") ? cursor : "next_cursor: <cursor>"))
        // The width of columns depends on the length of times.
        .replaceAll(/(\S) {3,}/g, "$1  ")
    );
  }

  #nameOf(value: string, kind: string): string {
    const known = this.#names.get(value);
    if (known !== undefined) return known;
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    const name = `<${kind}_${count}>`;
    this.#names.set(value, name);
    return name;
  }
}
