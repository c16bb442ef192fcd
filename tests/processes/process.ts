import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { SERVER_NODE_FLAGS } from "../../bin/launch.mjs";
import { type Truthy, until, type UntilOptions } from "@roamfleet/clock/testing";

const STOP_MS_MAX = 60_000;

export const ROOT = path.resolve(import.meta.dirname, "../..");
/**
 * Environment variables that programs inherit. NODE_COMPILE_CACHE halves the start time, half of which is compiling sources. RF_TEST_RUN
 * lets the guard of a test run find the program.
 */
const INHERITED = ["PATH", "HOME", "TMPDIR", "LANG", "NODE_COMPILE_CACHE", "RF_TEST_RUN"];

/** Packages whose program a run of several files has bundled, with the paths of the bundles. */
const BUNDLES: Partial<Record<string, string>> = { agent: "agent/rf-agent.mjs", cli: "rf/rf.mjs", server: "server/roamfleet.mjs" };

/**
 * Environment variables of a server that must run from its sources. Its transaction points have the names of source files, and only a clone
 * builds the dashboard. Bounds of measured memory were set with the sources.
 */
const NEEDS_SOURCES: Readonly<Record<string, RegExp>> = {
  ROAMFLEET_FAILPOINT: /./,
  ROAMFLEET_DASHBOARD: /^on$/,
  ROAMFLEET_TEST_MEASURES: /./,
};

/** Returns the path of a program: its bundle, or its entry file if there is no bundle or `env` requires the sources. */
function programFile(entry: string, env: Record<string, string>): string {
  const { ROAMFLEET_TEST_PROGRAMS: bundles } = process.env;
  const name = /^packages\/(\w+)\/src\/main\.ts$/.exec(entry)?.[1] ?? "";
  const bundle = BUNDLES[name];
  const needs_sources = name === "server" && Object.entries(NEEDS_SOURCES).some(([variable, value]) => value.test(env[variable] ?? ""));
  return bundles && bundle && !needs_sources ? path.join(bundles, bundle) : path.join(ROOT, entry);
}

/** Flags of Node that a program is started with in production. */
const nodeFlags = (entry: string): readonly string[] => (entry === "packages/server/src/main.ts" ? SERVER_NODE_FLAGS : []);

/** A program of this repository in a separate process, with its output. */
export class Program {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  #output = "";
  /** Whether the program has ended and all its output has been read. */
  #closed = false;

  /** `within` is a command prefix, such as one that enters another network namespace. */
  constructor(entry: string, args: readonly string[], env: Record<string, string> = {}, within: readonly string[] = []) {
    const inherited = Object.fromEntries(INHERITED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));
    const [command = process.execPath, ...words] = [...within, process.execPath, ...nodeFlags(entry), programFile(entry, env), ...args];
    this.child = spawn(command, words, {
      // Servers in tests do not build the dashboard, except in tests of the dashboard.
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

  /** The program's output so far, from stdout and stderr. */
  get output(): string {
    return this.#output;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Kills the program with SIGKILL. */
  async kill(): Promise<void> {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** Sends SIGTERM and returns the program's exit code. A program that does not end in time is killed: returns null. */
  async stop(): Promise<number | null> {
    this.child.kill("SIGTERM");
    const late = setTimeout(() => this.child.kill("SIGKILL"), STOP_MS_MAX);
    const { code } = await this.ended;
    clearTimeout(late);
    return code;
  }

  /** Resolves with the first truthy result of `look`. Rejects if the program ends first. */
  until<T>(what: string, look: () => T | Promise<T>, options: UntilOptions = {}): Promise<Truthy<Awaited<T>>> {
    return until(
      what,
      async () => {
        // Read this before calling `look`: the last output may arrive just before the program's end is noticed.
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

/** Returns the command-line flag that a program needs to obey the failpoint in its environment. */
export const failpointFlags = (env: Record<string, string> = {}): string[] =>
  env["ROAMFLEET_FAILPOINT"] === undefined ? [] : ["--crash-at-failpoint"];

export interface Found {
  pid: number;
  command: string;
  env: Record<string, string>;
}

/** Returns the processes on this machine whose command, environment or working directory contains `text`, such as a test's directory. */
export function processesNaming(text: string): Found[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((name) => {
      try {
        // A zombie has no command or environment.
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

/** USER_HZ of proc(5): the same on every Linux that Node supports. */
const CLOCK_TICKS_PER_SECOND = 100;

/** Returns the CPU time of a running program in seconds, without its children. */
export function cpuSeconds({ child }: Program): number {
  const stat = readFileSync(`/proc/${child.pid}/stat`, "utf8");
  const [utime = 0, stime = 0] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13)
    .map(Number);
  return (utime + stime) / CLOCK_TICKS_PER_SECOND;
}
