import type { ChildProcess } from "node:child_process";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import { spawnChild } from "../../runtime/spawn-child.ts";
import { endSession, OutputQueue, type Program, type Session, sessionOf, type ShellExit, type Terminal, writeInput } from "./terminal.ts";
import type { Output } from "../../runtime/byte-reader.ts";

/**
 * After the program has exited, its output counts as complete when nothing was received for this long. A daemon that the
 * program left may keep the output open forever.
 */
const SILENCE_AFTER_EXIT_MS = 1_000;
const SHELL_CANNOT_START = 126;

/**
 * Runs a program without a terminal. Bytes are unchanged in both directions, stderr is separate from stdout, and the input can
 * end.
 */
export class PipedTerminal implements Terminal {
  readonly exited: Promise<ShellExit>;
  readonly #clock: Clock;
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #output: OutputQueue;
  readonly #session: Session | undefined;
  #silence: Timer | undefined;
  #closed: Promise<void> | undefined;

  constructor({ argv: [file = "", ...args], cwd, env, clock }: Program & { clock: Clock }) {
    this.#clock = clock;
    // Start a separate session (`detached`), so that all processes of the program can be found and ended.
    const child = spawnChild(file, args, { cwd, env: { ...env }, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const { stdin, stdout, stderr } = child;
    if (!stdin || !stdout || !stderr) {
      throw new Error("the program could not be started, or the robot has no descriptors left for its input and output");
    }
    this.#child = child;
    this.#stdin = stdin;
    this.#output = new OutputQueue([
      { stream: stdout, error: false },
      { stream: stderr, error: true },
    ]);
    this.#session = child.pid === undefined ? undefined : sessionOf(child.pid);
    // Ignore errors here. The program may close its input; further input is then dropped.
    stdin.on("error", () => {});
    this.exited = new Promise((resolve) => {
      child.once("error", () => resolve({ code: SHELL_CANNOT_START }));
      child.once("exit", (code, signal) => {
        resolve(signal === null ? { code: code ?? 0 } : { code: 128 + constants.signals[signal], signal });
        this.#endWhenSilent();
      });
    });
  }

  async read(): Promise<Output | undefined> {
    const output = await this.#output.read();
    if (this.#silence !== undefined) this.#endWhenSilent();
    return output;
  }

  #endWhenSilent(): void {
    this.#silence?.cancel();
    this.#silence = this.#clock.setTimer(SILENCE_AFTER_EXIT_MS, () => this.#output.end());
  }

  write(bytes: Uint8Array): Promise<void> {
    return writeInput(this.#stdin, bytes);
  }

  endInput(): void {
    this.#stdin.end();
  }

  resize(): void {}

  close(): Promise<void> {
    return (this.#closed ??= this.#end());
  }

  async #end(): Promise<void> {
    this.#silence?.cancel();
    this.#stdin.destroy();
    this.#output.end();
    if (this.#session !== undefined) await endSession(this.#session, this.#clock);
    for (const stream of [this.#child.stdout, this.#child.stderr] as (Readable | null)[]) stream?.destroy();
  }
}
