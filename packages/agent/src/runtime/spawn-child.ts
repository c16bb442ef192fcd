import fs from "node:fs";
import path from "node:path";
import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { EventEmitter } from "node:events";
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { Clock } from "@roamfleet/clock";
import { LOG_MESSAGE_CHARACTERS_MAX } from "@roamfleet/protocol/link";
import { OUTPUT_TAIL_CHARACTERS } from "./limits.ts";
import { signalGroup } from "./processes.ts";

/**
 * Starts a child process and never throws. Node reports ENOENT, EACCES and a lack of file descriptors as an `error` event, but throws other
 * errors (ENOTDIR, ETXTBSY, EIO, ELOOP, E2BIG, ENOMEM). This function turns all of them into an `error` event, followed by `close`. A child
 * without a pid has never run, and its streams may be missing. An error of the child or of its streams without a listener is ignored, since
 * `exit` and `close` follow.
 */
export function spawnChild(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  let child: ChildProcess;
  try {
    child = spawn(program, args, options);
  } catch (error) {
    child = unstarted(error);
  }
  if (child.pid !== undefined) exposeToOomKiller(child.pid);
  child.on("error", ignore);
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", ignore);
  return child;
}

const ignore = (): void => {};

let is_protected: boolean | undefined;

/**
 * Gives a child the normal score of the kernel's out-of-memory killer. The agent's service sets a lower score (OOMScoreAdjust), which
 * children inherit. With that score, a workload that uses too much memory would outlive the rest of the robot's software.
 */
export function exposeToOomKiller(pid: number): void {
  try {
    is_protected ??= Number(fs.readFileSync("/proc/self/oom_score_adj", "utf8")) < 0;
    if (is_protected) fs.writeFileSync(`/proc/${pid}/oom_score_adj`, "0");
  } catch {
    // The child has ended, or /proc is not mounted.
  }
}

const NEVER_RAN = {
  pid: undefined,
  stdin: null,
  stdout: null,
  stderr: null,
  exitCode: null,
  signalCode: null,
  killed: false,
  connected: false,
};

function unstarted(error: unknown): ChildProcess {
  const child = Object.assign(new EventEmitter(), { ...NEVER_RAN, kill: () => false, ref: ignore, unref: ignore }) as ChildProcess;
  process.nextTick(() => {
    child.emit("error", error);
    child.emit("close", null, null);
  });
  return child;
}

interface CommandOptions {
  argv: readonly string[];
  cwd?: string;
  env: Readonly<Record<string, string>>;
  timeout_ms: number;
  clock: Clock;
  /** Aborting the signal ends the command in the same way as the timeout. */
  signal?: AbortSignal | undefined;
  /**
   * If set, the result contains all of stdout instead of the end of the output, and stderr is ignored. The command fails if its stdout is
   * larger.
   */
  output_bytes_max?: number;
}

interface CommandResult {
  ok: boolean;
  /** How the command ended, such as `exited with 3` or `did not end within 5000 ms`, and the end of its output. */
  message: string;
  /** All of stdout, if requested. */
  output?: string;
}

/** Runs a command until it exits. After a timeout or an abort, kills the command with its process group. Never throws. */
export function runCommand({ argv, env, timeout_ms, clock, signal: cut, ...options }: CommandOptions): Promise<CommandResult> {
  const { cwd, output_bytes_max } = options;
  return new Promise((resolve) => {
    const [program = "", ...args] = argv;
    const stderr = output_bytes_max === undefined ? "pipe" : "ignore";
    const child = spawnChild(program, args, { cwd, env: { ...env }, detached: true, stdio: ["ignore", "pipe", stderr] });
    let tail = "";
    const parts: Buffer[] = [];
    let bytes = 0;
    let why_killed: string | undefined;
    let has_ended = false;
    const keepTail = (chunk: Buffer): void => {
      tail = (tail + chunk.toString("utf8")).slice(-OUTPUT_TAIL_CHARACTERS);
    };
    const keepAll = (chunk: Buffer): void => {
      parts.push(chunk);
      bytes += chunk.length;
      if (bytes > output_bytes_max!) kill(`printed more than ${output_bytes_max} bytes`);
    };
    child.stdout?.on("data", output_bytes_max === undefined ? keepTail : keepAll);
    child.stderr?.on("data", keepTail);
    const end = (ok: boolean, why: string): void => {
      if (has_ended) return;
      has_ended = true;
      timer.cancel();
      cut?.removeEventListener("abort", abort);
      // Kill the whole group, which includes processes that the command left in the background.
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
      child.stdout?.destroy();
      child.stderr?.destroy();
      const words = tail.trim();
      const output = output_bytes_max === undefined ? {} : { output: Buffer.concat(parts).toString("utf8") };
      resolve({ ok, message: words === "" ? why : `${why}: ${words}`, ...output });
    };
    const kill = (why?: string): void => {
      why_killed ??= why;
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
      // Do not wait for `close`: a process outside the group may keep the pipe open forever.
      if (output_bytes_max !== undefined) end(false, why ?? "was aborted");
    };
    const abort = (): void => kill();
    cut?.addEventListener("abort", abort, { once: true });
    const timer = clock.setTimer(timeout_ms, () => kill(`did not end within ${timeout_ms} ms`));
    if (cut?.aborted) kill();
    child.on("error", (error) => end(false, `could not be started (${error.message})`));
    // Wait for `close` only if all output is needed, since processes in the background keep the pipes open.
    child.on(output_bytes_max === undefined ? "exit" : "close", (code: number | null, signal: NodeJS.Signals | null) => {
      if (why_killed !== undefined) end(false, why_killed);
      else if (code === 0) end(true, "exited with 0");
      else end(false, signal === null ? `exited with ${code}` : `ended by ${signal}`);
    });
  });
}

/** Directories of a system's own programs, for `findProgram`. */
export const SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin";

/**
 * Finds a program like a shell that runs in the directory `cwd` with the PATH `search`. Returns its absolute path; undefined if there is
 * none.
 */
export function findProgram(name: string, search: string, cwd = "/"): string | undefined {
  const candidates = name.includes("/")
    ? [path.resolve(cwd, name)]
    : search.split(":").map((directory) => path.resolve(cwd, directory, name));
  return candidates.find((file) => {
    try {
      fs.accessSync(file, fs.constants.X_OK);
      return fs.statSync(file).isFile();
    } catch {
      return false;
    }
  });
}

/** Called with each line. A line over the limit is truncated, and the number of missing characters is passed, too. */
type TakeLine = (text: string, missing_characters: number) => void;

/** Splits bytes into lines. Its memory is bounded, since a program may print without line breaks. The last line needs no line break. */
export function splitLines(line: TakeLine): { push: (chunk: Uint8Array) => void; end: () => void } {
  const decoder = new StringDecoder("utf8");
  let kept = "";
  let missing = 0;
  const take = (text: string): void => {
    const room = LOG_MESSAGE_CHARACTERS_MAX - kept.length;
    kept += text.slice(0, room);
    missing += Math.max(0, text.length - room);
  };
  const flush = (): void => {
    const text = kept.endsWith("\r") ? kept.slice(0, -1) : kept;
    if (text !== "" || missing > 0) line(text, missing);
    kept = "";
    missing = 0;
  };
  const push = (text: string): void => {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      take(text.slice(from, end));
      flush();
      from = end + 1;
    }
    take(text.slice(from));
  };
  return {
    push: (chunk) => push(decoder.write(chunk)),
    end: () => {
      push(decoder.end());
      flush();
    },
  };
}

/** Calls `line` with each line of a stream until the stream ends or fails. */
export function readLines(stream: Readable, line: TakeLine): void {
  const lines = splitLines(line);
  stream.on("data", lines.push).on("end", lines.end).on("error", lines.end);
}
