import type { Readable, Writable } from "node:stream";
import { drained } from "@roamfleet/protocol/drained";
import type { ShellParams } from "@roamfleet/protocol/link";
import type { Clock } from "@roamfleet/clock";
import { allProcesses, type ProcessEntry, readProcess, waitUntil } from "../../runtime/processes.ts";
import type { Output } from "../../runtime/byte-reader.ts";
import { KILL_WAIT_MS } from "../../runtime/limits.ts";

/** How a program ended. After a signal, the code is 128 plus the number of the signal, as in shells. */
export interface ShellExit {
  code: number;
  /** Name of the signal, such as SIGTERM. */
  signal?: string;
}

/** A running program whose input and output are connected to a remote user. */
export interface Terminal {
  /**
   * Returns the next output. Returns undefined when the program has ended and all of its output was read. Between two calls no output is
   * read from the program, so a program that prints faster blocks. Wait for one call before making the next.
   */
  read(): Promise<Output | undefined>;
  /**
   * Resolves when the program or the kernel has accepted the bytes, or when the program has ended. Wait for one call before making the
   * next.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the program's input. It is for programs without a terminal; on a terminal the user types Ctrl-D instead. */
  endInput(): void;
  resize(cols: number, rows: number): void;
  /** Resolves when the program has ended, even if some of its output was not read yet. */
  readonly exited: Promise<ShellExit>;
  /** Ends all processes of the program; resolves when none is left. May be called again. */
  close(): Promise<void>;
}

export interface Program {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

export interface Size {
  cols: number;
  rows: number;
}

const SIZE_MAX = 1_000;
const WORDS_MAX = 1_000;
const COMMAND_BYTES_MAX = 64 * 1024;

export type CheckedParams = Required<Pick<ShellParams, "cols" | "rows" | "terminal" | "term">> & Pick<ShellParams, "app" | "command">;

/** Validates a request for a shell. Returns a message if the request is invalid. */
export function readShellParams(params: unknown): CheckedParams | string {
  if (typeof params !== "object" || params === null) return "the request for a shell is not an object";
  const { cols, rows, app, command, terminal = true, term = "xterm-256color" } = params as Record<string, unknown>;
  if (!isSize(cols) || !isSize(rows)) return `a terminal must have 1 to ${SIZE_MAX} columns and rows`;
  if (app !== undefined && typeof app !== "string") return "app must be the name of an app";
  if (typeof terminal !== "boolean") return "terminal must be true or false";
  if (typeof term !== "string" || !/^[\w.+-]{1,64}$/.test(term)) return "term must be the name of a terminal type, such as xterm-256color";
  if (command !== undefined && !isCommand(command)) return "command must be a list of words, and not too long";
  return { cols, rows, terminal, term, ...(app === undefined ? {} : { app }), ...(command === undefined ? {} : { command }) };
}

export const isSize = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 1 && Number(value) <= SIZE_MAX;

function isCommand(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > WORDS_MAX || value[0] === "") return false;
  return value.every((word) => typeof word === "string" && !word.includes("\0")) && value.join(" ").length <= COMMAND_BYTES_MAX;
}

/** Writes to the input of a program. Resolves when there is room for more input, or when `close` destroys the stream. */
export async function writeInput(stream: Writable, bytes: Uint8Array): Promise<void> {
  if (stream.destroyed || stream.writableEnded || stream.write(bytes)) return;
  await drained(stream);
}

interface Source {
  stream: Readable;
  error: boolean;
}

/** Merges several output streams into one. It reads one chunk per call of `read`, and nothing between two calls. */
export class OutputQueue {
  readonly #sources: readonly Source[];
  #open: Set<Source>;
  #waiting: ((output: Output | undefined) => void) | undefined;

  constructor(sources: readonly Source[]) {
    this.#sources = sources;
    this.#open = new Set(sources);
    for (const source of sources) {
      const over = (): void => {
        this.#open.delete(source);
        this.#look();
      };
      source.stream.on("readable", () => this.#look());
      source.stream.once("end", over).once("close", over).on("error", over);
    }
  }

  read(): Promise<Output | undefined> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#look();
    });
  }

  /** Stops waiting for more data. Data that the streams have already received is still returned. */
  end(): void {
    this.#open = new Set();
    this.#look();
  }

  #look(): void {
    if (this.#waiting === undefined) return;
    for (const { stream, error } of this.#sources) {
      const bytes = stream.read() as Buffer | null;
      // The call of `read` may have emitted the stream's end. Then the handler of that event has already checked the queue.
      if (bytes !== null) return this.#give({ bytes, error });
    }
    if (this.#open.size === 0) this.#give(undefined);
  }

  #give(output: Output | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(output);
  }
}

/** Time in milliseconds for programs to exit after the hang-up of their terminal. */
const EXIT_GRACE_MS = 500;

/** A session in the sense of setsid: the processes of a terminal, or of a command without a terminal. */
export interface Session {
  id: number;
  /** Start time of the session's leader. It detects a reused pid. */
  start_time: number | undefined;
}

export const sessionOf = (leader: number): Session => ({ id: leader, start_time: readProcess(leader)?.start_time });

/** Returns the processes of a session. Does not include processes that have started a separate session, as daemons do. */
function membersOf({ id, start_time }: Session): ProcessEntry[] {
  const leader = readProcess(id);
  if (leader !== undefined && leader.start_time !== start_time) return [];
  return allProcesses().filter((entry) => entry.session === id);
}

/** Sends SIGHUP to all processes of a session, and kills those that do not exit. Resolves when none is left. */
export async function endSession(session: Session, clock: Clock): Promise<void> {
  // Also send SIGCONT, since a stopped program handles SIGHUP only when it continues.
  for (const name of ["SIGHUP", "SIGCONT"] as const) signalAll(session, name);
  if (await isEmptyWithin(session, EXIT_GRACE_MS, clock)) return;
  signalAll(session, "SIGKILL");
  await isEmptyWithin(session, KILL_WAIT_MS, clock);
}

function signalAll(session: Session, name: NodeJS.Signals): void {
  for (const { pid } of membersOf(session)) {
    try {
      process.kill(pid, name);
    } catch {
      // The process has ended, or belongs to another user (through sudo). In the second case the terminal's hang-up reaches it.
    }
  }
}

const isEmptyWithin = (session: Session, limit_ms: number, clock: Clock): Promise<boolean> =>
  waitUntil(clock, limit_ms, () => membersOf(session).length === 0);
