import fs from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import tty from "node:tty";
import { exposeToOomKiller } from "../../runtime/spawn-child.ts";
import type { Clock } from "@roamfleet/clock";
import { endSession, type Program, type Session, sessionOf, type ShellExit, type Size, type Terminal } from "./terminal.ts";
import type { Output } from "../../runtime/byte-reader.ts";

/**
 * Maximum output read from the kernel's buffer after the program has exited. The buffer is not larger, so later output is from other
 * processes.
 */
const TAIL_BYTES_MAX = 128 * 1024;
const READ_BYTES = 64 * 1024;

/**
 * The compiled part of node-pty. The classes in this file replace its JavaScript part, which closes the terminal 200 ms after an exit even
 * if output is unread.
 */
interface Native {
  fork(
    ...args: [
      file: string,
      args: string[],
      env: string[],
      cwd: string,
      cols: number,
      rows: number,
      uid: number,
      gid: number,
      utf8: boolean,
      helper: string,
      on_exit: (code: number, signal: number) => void,
    ]
  ): { fd: number; pid: number; pty: string };
  resize(fd: number, cols: number, rows: number): void;
}

let loaded: Native | undefined;

function native(): Native {
  if (loaded === undefined) {
    const { requireBinary } = createRequire(import.meta.url)("@lydell/node-pty/requireBinary.js") as {
      requireBinary: (this: void, file: string) => Native;
    };
    loaded = requireBinary("pty.node");
  }
  return loaded;
}

interface PtyOptions extends Program, Size {
  clock: Clock;
  /** User id of the terminal's owner; absent: the agent's user. */
  owner?: number | undefined;
}

const SIGNAL_NAMES = new Map<number, string>(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** Runs a program on a new terminal. */
export class PtyTerminal implements Terminal {
  readonly #exited = Promise.withResolvers<ShellExit>();
  readonly exited = this.#exited.promise;
  /** Pid of the program. The program is the leader of a separate session. */
  readonly pid: number;
  readonly #clock: Clock;
  readonly #fd: number;
  /**
   * A handle of the terminal's other end, which stays open until the program has ended. Without it, libuv would treat the hang-up after
   * the last process as the end of the data, and output in the kernel's buffer would be lost.
   */
  #slave: number | undefined;
  readonly #stream: tty.ReadStream;
  readonly #session: Session;
  #waiting: ((output: Output | undefined) => void) | undefined;
  #has_exited = false;
  #closed: Promise<void> | undefined;
  #tail_bytes = 0;

  constructor({ argv: [file = "", ...args], cwd, env, cols, rows, clock, owner }: PtyOptions) {
    this.#clock = clock;
    const words = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const { fd, pid, pty } = native().fork(file, args, words, cwd, cols, rows, -1, -1, false, "", (code, signal) => {
      this.#exited.resolve(exitOf(code, signal));
      this.#has_exited = true;
      this.#answer();
    });
    exposeToOomKiller(pid);
    this.#fd = fd;
    this.pid = pid;
    this.#slave = fs.openSync(pty, fs.constants.O_RDWR | fs.constants.O_NOCTTY);
    if (owner !== undefined) fs.fchownSync(this.#slave, owner, -1);
    this.#session = sessionOf(pid);
    this.#stream = new tty.ReadStream(fd);
    this.#stream.pause();
    this.#stream.on("data", (bytes: Buffer) => {
      // After the exit, `#takeTail` reads the stream and returns this data itself.
      if (this.#has_exited) return;
      this.#stream.pause();
      this.#give({ bytes, error: false });
    });
    // The stream fails when no process has the terminal open any more. Then answer a waiting read.
    this.#stream.on("error", () => this.#answer());
  }

  read(): Promise<Output | undefined> {
    if (this.#waiting !== undefined) throw new Error("a read of a terminal has to be awaited before the next");
    return new Promise((resolve) => {
      this.#waiting = resolve;
      if (this.#has_exited || this.#stream.destroyed) this.#answer();
      else this.#stream.resume();
    });
  }

  #give(output: Output | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(output);
  }

  /**
   * Answers a waiting read after the program has ended. Returns first the data that the stream has buffered, then the data in the kernel's
   * buffer.
   */
  #answer(): void {
    if (this.#waiting === undefined || (!this.#has_exited && !this.#stream.destroyed)) return;
    this.#stream.pause();
    const bytes = this.#tail_bytes < TAIL_BYTES_MAX ? this.#takeTail() : undefined;
    this.#tail_bytes += bytes?.length ?? 0;
    this.#give(bytes === undefined ? undefined : { bytes, error: false });
  }

  #takeTail(): Uint8Array | undefined {
    if (this.#stream.destroyed) return undefined;
    const buffered = this.#stream.read() as Buffer | null;
    if (buffered !== null) return buffered;
    const bytes = Buffer.allocUnsafe(READ_BYTES);
    try {
      const count = fs.readSync(this.#fd, bytes);
      return count === 0 ? undefined : bytes.subarray(0, count);
    } catch {
      // EAGAIN means that the kernel's buffer is empty.
      return undefined;
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    if (this.#has_exited || this.#stream.destroyed) return Promise.resolve();
    // Node always calls this callback, since `close` destroys the stream.
    return new Promise((resolve) => this.#stream.write(bytes, () => resolve()));
  }

  endInput(): void {}

  resize(cols: number, rows: number): void {
    if (this.#closed === undefined && !this.#stream.destroyed) native().resize(this.#fd, cols, rows);
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#end());
  }

  async #end(): Promise<void> {
    const ended = endSession(this.#session, this.#clock);
    if (this.#slave !== undefined) fs.closeSync(this.#slave);
    this.#slave = undefined;
    this.#stream.destroy();
    this.#give(undefined);
    await ended;
  }
}

function exitOf(code: number, signal: number): ShellExit {
  if (signal === 0) return { code };
  return { code: 128 + signal, signal: SIGNAL_NAMES.get(signal) ?? `signal ${signal}` };
}
