import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { type Truthy, until, type UntilOptions } from "@roamfleet/clock/testing";

const STOP_MS_MAX = 60_000;

export const ROOT = path.resolve(import.meta.dirname, "../..");
/** What a program has of our environment, and where Node keeps compiled sources: to compile them is half of what a start costs. */
const INHERITED = ["PATH", "HOME", "TMPDIR", "LANG", "NODE_COMPILE_CACHE"];

/** A program of ours, run from source as a separate process, with everything that it printed. */
export class Program {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  #output = "";
  /** It has ended, and all that it printed has been read. */
  #closed = false;

  /** `within` is a command prefix, such as one that enters another network namespace. */
  constructor(entry: string, args: readonly string[], env: Record<string, string> = {}, within: readonly string[] = []) {
    const inherited = Object.fromEntries(INHERITED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));
    const [command = process.execPath, ...words] = [...within, process.execPath, path.join(ROOT, entry), ...args];
    this.child = spawn(command, words, {
      // No server of a test builds a dashboard, unless the test is about it.
      env: { ...inherited, ROAMFLEET_DASHBOARD: "off", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (this.#output += text));
    this.ended = once(this.child, "close").then(([code, signal]) => {
      this.#closed = true;
      return { code: code as number | null, signal: signal as NodeJS.Signals | null };
    });
  }

  /** What it printed so far, on either stream. */
  get output(): string {
    return this.#output;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Ends it without a chance to say anything. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Asks it to end, and answers its exit code; one that does not end is killed, and null is answered. */
  async stop(): Promise<number | null> {
    this.child.kill("SIGTERM");
    const late = setTimeout(() => this.child.kill("SIGKILL"), STOP_MS_MAX);
    const { code } = await this.ended;
    clearTimeout(late);
    return code;
  }

  /** Resolves with the first truthy answer of `look`; rejects when the program ends before. */
  until<T>(what: string, look: () => T | Promise<T>, options: UntilOptions = {}): Promise<Truthy<Awaited<T>>> {
    return until(
      what,
      async () => {
        // Asked before the look: the last of its words come before its end is known.
        const is_over = this.#closed;
        const seen = await look();
        if (!seen && is_over) throw new Error(`the program ended while this was waited for: ${what}`);
        return seen;
      },
      options,
    ).catch((error: unknown) => {
      throw new Error(`${error instanceof Error ? error.message : String(error)}\n${this.output.slice(-4_000)}`, { cause: error });
    });
  }
}

/** The flag without which a program does not obey the failpoint of its environment. */
export const failpointFlags = (env: Record<string, string> = {}): string[] =>
  env["ROAMFLEET_FAILPOINT"] === undefined ? [] : ["--crash-at-failpoint"];

export interface Found {
  pid: number;
  command: string;
  env: Record<string, string>;
}

/** Processes of this machine whose command, environment or working directory names `text`, such as a directory of a test. */
export function processesNaming(text: string): Found[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      try {
        // A zombie has neither command nor environment any more.
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ").trim();
        const environ = readFileSync(`/proc/${name}/environ`, "utf8");
        if (!command.includes(text) && !environ.includes(text)) return [];
        const env = Object.fromEntries(
          environ
            .split("\0")
            .flatMap((line) => (line.includes("=") ? [[line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]] : [])),
        );
        return [{ pid: Number(name), command, env }];
      } catch {
        return [];
      }
    });
}
