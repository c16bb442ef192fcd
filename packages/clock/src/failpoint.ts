import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

/** The operation that a process is performing when it reaches a failpoint. */
export type Within = "transaction" | "statement" | "journal" | "file" | "step";

export interface FailpointOptions {
  /**
   * `list` logs every failpoint that is reached. `NAME[#NTH][!hold]` kills the process at the failpoint NAME, or with `!hold` stops it
   * (SIGSTOP).
   */
  spec: string;
  /** File for the log lines. Each line is on disk before the process is killed or stopped. */
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

/** The armed failpoints. Undefined in production, where reaching a failpoint costs only one comparison. */
let armed: Failpoints | undefined;

/** Arms the failpoints of this process; without options, disarms them. `main` calls it once with the settings from config.ts. */
export function armFailpoints(options: FailpointOptions | undefined): void {
  armed = options === undefined ? undefined : new Failpoints(options);
}

/** Returns whether failpoints are armed. Callers check this to avoid computing names that are not needed. */
export const failpointsArmed = (): boolean => armed !== undefined;

/** Marks a point in the code at which a crash must do no harm. Kills or stops the process if this point is armed. */
export function failpoint(name: string, within: Within): void {
  armed?.reach(name, within);
}

/**
 * Like `failpoint`, but for a write that a crash may cut off in the middle. `tear` writes a part of the data. It is called only just before
 * the process is killed.
 */
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
      // In list mode, log each name only the first time.
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

/** Parses a spec; undefined for `list`. Throws for an invalid spec, because a misspelled one would never fire. */
function parseFailpoint(spec: string): { name: string; nth: number; hold: boolean } | undefined {
  if (spec === "list") return undefined;
  const match = /^([^#!\s]+)(?:#([1-9]\d*))?(!hold)?$/.exec(spec);
  if (match === null) throw new Error(`a failpoint is list or NAME[#NTH][!hold], not ${JSON.stringify(spec)}`);
  return { name: match[1]!, nth: Number(match[2] ?? 1), hold: match[3] !== undefined };
}
