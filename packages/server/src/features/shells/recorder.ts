import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Plane } from "../../context.ts";
import { appendChunk } from "./store.ts";

/** What a crash of the server loses of a recording, at most, beside the time that the database takes. */
const FLUSH_MS = 500;
/** Written at once when so much has come; characters, before compression. */
const CHUNK_CHARACTERS = 128 * 1024;
/** What may wait while the database writes: beyond, the shell stands still. */
export const RECORDER_CHARACTERS_MAX = 512 * 1024;
/** A session has no more than this on disk: then it ends, since nothing of it may go unrecorded. */
export const RECORDING_BYTES_MAX = 512 * 1024 ** 2;
const TRIES_MAX = 20;
const TRY_AGAIN_MS = 500;

const compress = promisify(gzip);

export interface RecorderOptions {
  plane: Plane;
  org_id: string;
  session_id: string;
  /** First line of the file. */
  header: Record<string, unknown>;
  /** It cannot go on: the session has to end, and why. */
  onFailure: (reason: string) => void;
}

/**
 * Writes down what a shell shows, as asciinema v2, in compressed pieces. Who types holds no handle on it, and what cannot be
 * written yet holds the shell up.
 */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #started_at: number;
  readonly #decoder = new TextDecoder();
  #lines: string[];
  #characters = 0;
  #seq = 0;
  #output_bytes = 0;
  #stored_bytes = 0;
  #flushing: Promise<void> | undefined;
  #timer: { cancel(): void } | undefined;
  #failed = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#started_at = options.plane.clock.monotonic();
    this.#lines = [];
    this.#append(`${JSON.stringify({ version: 2, ...options.header })}\n`);
  }

  get output_bytes(): number {
    return this.#output_bytes;
  }

  /** What the viewer is about to see. Resolves when there is room for more. */
  async output(bytes: Uint8Array): Promise<void> {
    this.#output_bytes += bytes.length;
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text !== "") this.#event("o", text);
    while (this.#characters > RECORDER_CHARACTERS_MAX && !this.#failed) await this.#flush();
  }

  resize(cols: number, rows: number): void {
    this.#event("r", `${cols}x${rows}`);
  }

  /** A word of ours in the recording. */
  mark(text: string): void {
    this.#event("m", text);
  }

  /** Resolves when everything is written, or cannot be. */
  async finish(): Promise<void> {
    const rest = this.#decoder.decode();
    if (rest !== "") this.#event("o", rest);
    while (this.#characters > 0 && !this.#failed) await this.#flush();
    this.#timer?.cancel();
  }

  #event(kind: "o" | "r" | "m", text: string): void {
    const seconds = Math.round((this.#options.plane.clock.monotonic() - this.#started_at) * 1_000) / 1e6;
    // JSON leaves these two as they are, and some readers know them as ends of a line.
    const event = JSON.stringify([seconds, kind, text])
      .replace(/\u2028/g, "\\u2028")
      .replace(/\u2029/g, "\\u2029");
    this.#append(`${event}\n`);
  }

  #append(line: string): void {
    if (this.#failed) return;
    this.#lines.push(line);
    this.#characters += line.length;
    if (this.#characters >= CHUNK_CHARACTERS) void this.#flush();
    else this.#flushSoon();
  }

  #flushSoon(): void {
    this.#timer ??= this.#options.plane.clock.setTimer(FLUSH_MS, () => {
      // Also when it finds a write under way, which then sees to what has come since.
      this.#timer = undefined;
      void this.#flush();
    });
  }

  /** One at a time; what comes meanwhile goes with the next. */
  #flush(): Promise<void> {
    this.#flushing ??= this.#write().finally(() => {
      this.#flushing = undefined;
      if (this.#characters >= CHUNK_CHARACTERS && !this.#failed) void this.#flush();
    });
    return this.#flushing;
  }

  async #write(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    const [lines, characters] = [this.#lines, this.#characters];
    if (characters === 0) return;
    this.#lines = [];
    const bytes = await compress(lines.join(""), { level: 1 });
    const { plane, org_id, session_id, onFailure } = this.#options;
    this.#seq += 1;
    const chunk = { org_id, session_id, seq: this.#seq, bytes, output_bytes: this.#output_bytes };
    let is_open: boolean | undefined;
    for (let tries = 1; is_open === undefined; tries += 1) {
      try {
        is_open = await appendChunk(plane.db.forOrg(org_id), chunk);
      } catch (error) {
        if (tries === TRIES_MAX) return this.#fail({ err: error });
        await plane.clock.sleep(TRY_AGAIN_MS);
      }
    }
    // Others took this server for gone and have told its end: nobody would see what is shown from now on.
    if (!is_open) return this.#fail({});
    this.#characters -= characters;
    this.#stored_bytes += bytes.length;
    if (this.#stored_bytes > RECORDING_BYTES_MAX) onFailure("its recording is full; open another shell");
    // What came while this was written waits no longer than anything else.
    if (this.#characters > 0) this.#flushSoon();
  }

  #fail(fields: { err?: unknown }): void {
    const { plane, session_id, onFailure } = this.#options;
    plane.log.error({ ...fields, session_id }, "a shell cannot be recorded");
    this.#failed = true;
    this.#lines = [];
    this.#characters = 0;
    onFailure("the session cannot be recorded");
  }
}
