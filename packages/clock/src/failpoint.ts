import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

/** What a process was in the middle of at a point. */
export type Within = "transaction" | "statement" | "journal" | "file" | "step";

export interface FailpointOptions {
  /** `list` writes down every point reached and goes on. `NAME[#NTH][!hold]` ends the process at that point, or stops it (SIGSTOP). */
  spec: string;
  /** Where each line goes, on the disk before anything happens. */
  log_file: string;
}

/** One line of the failpoint log. */
export interface Reached {
  point: string;
  nth: number;
  within: Within;
  action: "listed" | "killed" | "held";
  pid: number;
}

/** Undefined in production: a point costs one look at it. */
let armed: Failpoints | undefined;

/** Arms the points of this process; without options disarms them. Called once, by `main`, with what config.ts read. */
export function armFailpoints(options: FailpointOptions | undefined): void {
  armed = options === undefined ? undefined : new Failpoints(options);
}

/** Whether names are worth making. */
export const failpointsArmed = (): boolean => armed !== undefined;

/** A place where a crash must do no harm. */
export function failpoint(name: string, within: Within): void {
  armed?.reach(name, within);
}

/** As `failpoint`, for a write that a crash may cut: `tear` writes a part, and runs only if the process ends right after. */
export function tornFailpoint(name: string, within: Within, tear: () => void): void {
  armed?.reach(name, within, tear);
}

class Failpoints {
  readonly #log_file: string;
  readonly #target: { name: string; nth: number; hold: boolean } | undefined;
  readonly #counts = new Map<string, number>();

  constructor({ spec, log_file }: FailpointOptions) {
    this.#log_file = log_file;
    this.#target = parseFailpoint(spec);
  }

  reach(point: string, within: Within, tear?: () => void): void {
    const nth = (this.#counts.get(point) ?? 0) + 1;
    this.#counts.set(point, nth);
    if (this.#target === undefined) {
      // The first time is enough to know the name.
      if (nth === 1) this.#write({ point, nth, within, action: "listed", pid: process.pid });
      return;
    }
    const { name, nth: wanted, hold } = this.#target;
    if (point !== name || nth !== wanted) return;
    tear?.();
    this.#write({ point, nth, within, action: hold ? "held" : "killed", pid: process.pid });
    process.kill(process.pid, hold ? "SIGSTOP" : "SIGKILL");
  }

  #write(line: Reached): void {
    const handle = openSync(this.#log_file, "a", 0o600);
    try {
      writeSync(handle, `${JSON.stringify(line)}\n`);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
  }
}

/** Undefined for `list`; throws for what is no spec, since a misspelt one would prove nothing. */
function parseFailpoint(spec: string): { name: string; nth: number; hold: boolean } | undefined {
  if (spec === "list") return undefined;
  const match = /^([^#!\s]+)(?:#([1-9]\d*))?(!hold)?$/.exec(spec);
  if (match === null) throw new Error(`a failpoint is list or NAME[#NTH][!hold], not ${JSON.stringify(spec)}`);
  return { name: match[1]!, nth: Number(match[2] ?? 1), hold: match[3] !== undefined };
}
