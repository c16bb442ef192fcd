/** One step of a transcript: a command line of a shell, something that happens beside it, or words for the reader. */
export interface Step {
  kind: "$" | "%" | "#";
  text: string;
  /** What the step printed, as it is written down. */
  printed: string[];
}

export interface Printed {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Steps begin with `$`, `%` or `#`; what follows is what they print. */
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

/** stdout as it is, stderr behind `!`, and the exit code when it is not 0. Empty lines are left out. */
export function describe({ code, stdout, stderr }: Printed): string[] {
  const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
  const out = lines(stdout).map((line) => (/^[$%#!\\]|^\[exit/.test(line) ? `\\${line}` : line));
  return [...out, ...lines(stderr).map((line) => `! ${line}`), ...(code === 0 ? [] : [`[exit ${code}]`])];
}

const ID = /\b(org|usr|tok|site|fleet|rob|rel|dep|tgt|cfg|cdep|key|evt|aud|sess)_[0-9a-hj-np-tv-z]{26}\b/g;
const SECRET = /\brf_(org|user|enroll)_[0-9a-f]{64}\b/g;

const SIGNING_KEY = /\b[0-9a-f]{32}\b/g;

/** Gives what differs from run to run a name: the first site is `<site_1>`, in commands too. */
export class Names {
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  /** A value that has its name from the beginning. */
  set(name: string, value: string): void {
    this.#names.set(value, `<${name}>`);
  }

  /** A command line with the values in place of their names. */
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
        // Columns are as wide as times are long.
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
