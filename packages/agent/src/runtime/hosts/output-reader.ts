import { closeSync, constants, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import type { OutputSink } from "../../contract.ts";
import { errorText, readIfExists } from "../../disk/write-atomically.ts";
import { fieldsOf, parseObject } from "../../json.ts";
import { removeOutput } from "./output-directory.ts";
import { type Batch, OutputStream, readPosition, type StreamPosition } from "./output-stream.ts";

const LEVELS = { out: "info", err: "error" } as const;
type Name = keyof typeof LEVELS;
const NAMES: readonly Name[] = ["out", "err"];
/** Length of the stored positions. They are always written whole and in place, so that a full disk or kill -9 does not damage them. */
const POSITIONS_BYTES = 1_024;

interface OutputReaderOptions {
  app: string;
  /** Directory of the program's run. */
  directory: string;
  sink: OutputSink;
  log: Logger;
}

/**
 * Reads the output of one program from its files into the log, and deletes what was read. An agent that is killed at any point neither
 * loses nor repeats a line. Before it logs a batch, it stores the batch's position in the file and the log number of the batch's first
 * line. Afterwards it stores the end of the batch. If the end is missing, the next agent compares that number with the highest one in the
 * log.
 */
export class OutputReader {
  readonly #options: OutputReaderOptions;
  readonly #streams: Record<Name, OutputStream>;
  readonly #positions: Partial<Record<Name, StreamPosition>>;
  #handle: number | undefined;
  #failed = false;

  constructor(options: OutputReaderOptions) {
    this.#options = options;
    const { directory, sink } = options;
    const stored = fieldsOf(parseObject(readIfExists(join(directory, "position.json"))?.toString("utf8") ?? ""));
    const position = { out: readPosition(stored["out"]), err: readPosition(stored["err"]) };
    const open = (name: Name): OutputStream =>
      new OutputStream(join(directory, name), position[name], sink.stored_seq ?? 0, (files) => this.#reportLost(files));
    this.#streams = { out: open("out"), err: open("err") };
    this.#positions = { ...(position.out && { out: position.out }), ...(position.err && { err: position.err }) };
  }

  /** Reads all complete lines. Returns false if some lines are left because the log has no room at the moment. */
  async read(): Promise<boolean> {
    return this.#readAll(false);
  }

  /** Reads the rest after the program and the wrapper have ended, and deletes the files. */
  async finish(): Promise<void> {
    await this.#readAll(true);
    this.close();
    removeOutput(this.#options.directory);
  }

  close(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }

  async #readAll(at_end: boolean): Promise<boolean> {
    const { app, sink } = this.#options;
    for (const name of NAMES) {
      const stream = this.#streams[name];
      for (;;) {
        if (!at_end && sink.hasRoom?.(app) === false) return false;
        const batch = this.#attempt(() => stream.next(at_end));
        if (batch === undefined) break;
        this.#write(name, batch);
        // The log writes appended records before the next turn of the event loop.
        await new Promise((resolve) => setImmediate(resolve));
        this.#positions[name] = { from: batch.to, to: batch.to, lines: 0, seq: null };
        this.#attempt(() => this.#store());
        this.#attempt(() => stream.prune());
      }
    }
    return true;
  }

  #write(name: Name, { lines, from, to }: Batch): void {
    const { app, sink } = this.#options;
    this.#positions[name] = { from, to, lines: lines.length, seq: sink.next_seq?.() ?? null };
    this.#attempt(() => this.#store());
    for (const { text, missing } of lines)
      sink.write({ level: LEVELS[name], source: app, message: text, ...(missing > 0 ? { fields: { truncated_bytes: missing } } : {}) });
  }

  #store(): void {
    const file = join(this.#options.directory, "position.json");
    this.#handle ??= openSync(file, constants.O_WRONLY | constants.O_CREAT, 0o600);
    writeSync(this.#handle, JSON.stringify(this.#positions).padEnd(POSITIONS_BYTES), 0);
  }

  /**
   * Runs `work`, which uses the disk. If it fails, logs the first error and returns undefined. The program continues, and later reads try
   * again.
   */
  #attempt<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      const { app, log } = this.#options;
      if (!this.#failed)
        log.warn({ app, reason: errorText(error) }, "the output of a workload cannot be read, or the read position cannot be stored");
      this.#failed = true;
      return undefined;
    }
  }

  #reportLost(files: number): void {
    const { app, sink } = this.#options;
    const message = `output of ${app} was dropped: it was written faster than it was read, or while no agent ran`;
    sink.write({ level: "warn", source: "roamfleet", message, fields: { source: app, files } });
  }
}
