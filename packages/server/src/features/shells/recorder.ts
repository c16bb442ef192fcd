import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Plane } from "../../context.ts";
import { oneLine } from "../../kernel/serve.ts";
import { appendChunk } from "./store.ts";

/** Interval of writes. If the server crashes, a recording loses at most the output of this time plus the duration of one database write. */
const FLUSH_MS = 500;
/** Number of buffered characters, before compression, at which they are written immediately. */
const CHUNK_CHARACTERS = 128 * 1024;
/** Maximum characters buffered during a write. While more are buffered, the output of the shell is paused. */
export const RECORDER_CHARACTERS_MAX = 512 * 1024;
/** Maximum stored size of a recording. A session whose recording exceeds it ends, because all output of a session must be recorded. */
const RECORDING_BYTES_MAX = 512 * 1024 ** 2;
const TRIES_MAX = 20;
const TRY_AGAIN_MS = 500;

const compress = promisify(gzip);

interface RecorderOptions {
  plane: Plane;
  org_id: string;
  session_id: string;
  /** The first line of the recording, in the asciinema format. */
  header: Record<string, unknown>;
  /** Called with the reason when no more output can be recorded. The caller must then end the session. */
  onFailure: (reason: string) => void;
}

/**
 * Records the output of a shell in the format asciinema v2, in compressed chunks. The user of the shell cannot change or disable the
 * recording. If the database is slow, the shell is paused.
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

  /** Records output. Resolves when the buffer has room. The caller must not send the output to the viewer before that. */
  async output(bytes: Uint8Array): Promise<void> {
    this.#output_bytes += bytes.length;
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text !== "") this.#event("o", text);
    while (this.#characters > RECORDER_CHARACTERS_MAX && !this.#failed) await this.#flush();
  }

  resize(cols: number, rows: number): void {
    this.#event("r", `${cols}x${rows}`);
  }

  /** Adds a marker of the server to the recording. */
  mark(text: string): void {
    this.#event("m", text);
  }

  /** Resolves when everything is written, or writing has failed. */
  async finish(): Promise<void> {
    const rest = this.#decoder.decode();
    if (rest !== "") this.#event("o", rest);
    while (this.#characters > 0 && !this.#failed) await this.#flush();
    this.#timer?.cancel();
  }

  #event(kind: "o" | "r" | "m", text: string): void {
    const seconds = Math.round((this.#options.plane.clock.monotonic() - this.#started_at) * 1_000) / 1e6;
    this.#append(`${oneLine(JSON.stringify([seconds, kind, text]))}\n`);
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
      // If a write is running, `#flush` starts no second one. The running write then schedules the next write.
      this.#timer = undefined;
      void this.#flush();
    });
  }

  /** Writes the buffered output. Only one write runs at a time; output that arrives meanwhile is written by the next one. */
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
    // Another server considered this server dead and closed the session, so no further output can be recorded.
    if (!is_open) return this.#fail({});
    this.#characters -= characters;
    this.#stored_bytes += bytes.length;
    if (this.#stored_bytes > RECORDING_BYTES_MAX) onFailure("its recording is full; open another shell");
    // Schedule another write for output that arrived during this write.
    if (this.#characters > 0) this.#flushSoon();
  }

  #fail(fields: { err?: unknown }): void {
    const { plane, session_id, onFailure } = this.#options;
    plane.log.error({ ...fields, session_id }, "could not record a shell");
    this.#failed = true;
    this.#lines = [];
    this.#characters = 0;
    onFailure("the session cannot be recorded");
  }
}
