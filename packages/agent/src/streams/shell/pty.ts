import fs from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import tty from "node:tty";
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
 * The compiled part of node-pty. Its JavaScript part is replaced here, since it closes the terminal 200 ms after an exit, even with unread
 * output.
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
  /** The owner of the terminal, if it is not the agent's user. */
  owner?: number | undefined;
}

const SIGNAL_NAMES = new Map<number, string>(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** A program on a separate terminal. */
export class PtyTerminal implements Terminal {
  readonly #exited = Promise.withResolvers<ShellExit>();
  readonly exited = this.#exited.promise;
  /** Pid of the program, which leads a separate session. */
  readonly pid: number;
  readonly #clock: Clock;
  readonly #fd: number;
  /**
   * Our own handle of the terminal's other end, open until the program has ended. Without it libuv treats the hang-up after the last
   * process as the end of the data, and loses output in the kernel's buffer.
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
    // No process has the terminal open any more: answer a waiting read.
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
   * After the program's end, answers a waiting read: first with data that the stream has buffered, then with data in the kernel's buffer.
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
      // EAGAIN: the kernel's buffer is empty.
      return undefined;
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    if (this.#has_exited || this.#stream.destroyed) return Promise.resolve();
    // The callback is always called, since `close` destroys the stream.
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
