import type { Clock } from "@roamfleet/clock";
import type { Logger, LogSink } from "../../contract.ts";
import { type Engine, engineMessage, statusOf } from "./engine.ts";
import { splitLines } from "../spawn-child.ts";
import { engineOutput } from "../byte-reader.ts";

interface ContainerLogOptions {
  app: string;
  container_id: string;
  /** An earlier agent has read all lines up to this time, in nanoseconds since 1970. */
  read_until: bigint;
  /** Time from which lines are passed to `on_line`, even if an earlier agent has read them. In nanoseconds since 1970. */
  look_from: bigint;
  engine: Engine;
  clock: Clock;
  log: Logger;
  logs: LogSink;
  on_line: (text: string, at: bigint) => void;
}

const RETRY_FIRST_MS = 100;
const RETRY_LAST_MS = 5_000;
const CLOSE_GRACE_MS = 100;
/** Maximum time after a connect in which the engine repeats old lines. Lines that arrive later are new. */
const REPLAY_MS = 10_000;
const NANO = 1_000_000_000n;
const NANO_OF_MS = 1_000_000n;
/**
 * Maximum difference in nanoseconds by which lines of stdout and stderr may be out of order. If a time decreases by more, the clock was
 * set back.
 */
const OVERTAKEN_MAX = NANO / 2n;

/** Follows a container's output across restarts of the container and of the engine. Logs each line once. */
export class ContainerLog {
  readonly #options: ContainerLogOptions;
  readonly #stop = new AbortController();
  #read_until: bigint;
  /**
   * `#of_last_time` is the number of lines read with the time `read_until`. `#repeated` is how many of these lines the engine still has to
   * repeat. Several lines may have the same time, since podman's times are whole seconds.
   */
  #of_last_time = Infinity;
  #repeated = Infinity;
  /** The latest time of any line. It is later than `read_until` if the clock was set back. */
  #highest: bigint;
  /** True while the engine repeats lines that were read before. */
  #replaying = true;
  /** When this connection began, and when the last new line arrived, in milliseconds on the monotonic clock. */
  #connected_ms = 0;
  #last_new_ms: number;
  #ended: Promise<void> | undefined;

  constructor(options: ContainerLogOptions) {
    this.#options = options;
    // If the saved position is in the future, use the current time. Otherwise the engine would return nothing until then.
    const now = nanosecondsOf(options.clock.now());
    this.#read_until = options.read_until > now ? now : options.read_until;
    this.#highest = this.#read_until;
    this.#last_new_ms = options.clock.monotonic();
  }

  /** Time of the last line that was passed on, in nanoseconds since 1970. */
  get read_until(): bigint {
    return this.#read_until;
  }

  start(): void {
    this.#ended ??= this.#run();
  }

  /** Waits CLOSE_GRACE_MS, so that lines that the engine already has are read, then stops reading. */
  async close(): Promise<void> {
    await this.#options.clock.sleep(CLOSE_GRACE_MS);
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { clock, log, app, look_from } = this.#options;
    let wait_ms = RETRY_FIRST_MS;
    let from = look_from < this.#read_until ? look_from : this.#read_until;
    while (!this.#stop.signal.aborted) {
      const before = this.#read_until;
      this.#replaying = true;
      this.#connected_ms = clock.monotonic();
      // If the clock was set back, new lines may be older than `from`. So also query from the arrival of the last line, measured by the
      // monotonic clock: no new line is older.
      const since_last_line = nanosecondsOf(clock.now()) - BigInt(Math.ceil(this.#connected_ms - this.#last_new_ms)) * NANO_OF_MS;
      try {
        await this.#followOnce(from < since_last_line ? from : since_last_line);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (statusOf(error) === 404) return;
        log.debug({ app, reason: engineMessage(error) }, "the connection to a container's log was lost");
      }
      from = this.#read_until;
      this.#repeated = this.#of_last_time;
      wait_ms = this.#read_until !== before ? RETRY_FIRST_MS : Math.min(RETRY_LAST_MS, wait_ms * 2);
      await clock.sleep(wait_ms, this.#stop.signal).catch(() => {});
    }
  }

  async #followOnce(from: bigint): Promise<void> {
    const { engine, container_id } = this.#options;
    const since = `${from / NANO}.${String(from % NANO).padStart(9, "0")}`;
    const options = { what: "show a container's log", signal: this.#stop.signal, limit_ms: 2 ** 31 - 1, wait_ms: 0 };
    await engine.use(options, async (docker, abortSignal) => {
      const query = { follow: true, stdout: true, stderr: true, timestamps: true, since, abortSignal } as const;
      // The engine accepts fractions of a second in `since`, although the library's types do not allow them.
      const stream = await docker.getContainer(container_id).logs(query as unknown as { follow: true });
      await this.#read(stream);
    });
  }

  async #read(stream: AsyncIterable<unknown>): Promise<void> {
    const out = splitLines((text, missing) => this.#take("info", text, missing));
    const err = splitLines((text, missing) => this.#take("error", text, missing));
    try {
      for await (const { bytes, error } of engineOutput(stream)) (error ? err : out).push(bytes);
    } finally {
      out.end();
      err.end();
    }
  }

  #take(level: "info" | "error", text: string, missing: number): void {
    const { app, logs, on_line } = this.#options;
    const space = text.indexOf(" ");
    const at = nanoseconds(space < 0 ? text : text.slice(0, space));
    const message = at === undefined ? text : space < 0 ? "" : text.slice(space + 1);
    if (at !== undefined) on_line(message, at);
    if (at !== undefined && this.#isRepeated(at)) return;
    if (message === "" && missing === 0) return;
    logs.write({
      level,
      source: app,
      message,
      ...(missing > 0 ? { fields: { truncated_bytes: missing } } : {}),
      ...(at === undefined ? {} : { at: new Date(Number(at / NANO_OF_MS)) }),
    });
  }

  /**
   * Returns whether a line was read before. The engine returns lines in the order in which they were printed, and first repeats lines of
   * the time from which it is queried. So each line after the last line that was read is new, even if its time is earlier.
   */
  #isRepeated(at: bigint): boolean {
    if (at === this.#read_until) {
      this.#replaying = false;
      if (this.#repeated > 0) {
        this.#repeated -= 1;
        return true;
      }
      this.#of_last_time += 1;
      return false;
    }
    const may_be_old = this.#replaying && this.#options.clock.monotonic() - this.#connected_ms < REPLAY_MS;
    if (may_be_old && at <= this.#highest) return true;
    // If another line only slightly overtook this one, keep the position, so that reading resumes from the later time.
    if (at > this.#read_until || this.#read_until - at > OVERTAKEN_MAX) {
      this.#read_until = at;
      this.#of_last_time = 1;
      this.#repeated = 0;
    }
    if (at > this.#highest) this.#highest = at;
    this.#replaying = false;
    this.#last_new_ms = this.#options.clock.monotonic();
    return false;
  }
}

const nanosecondsOf = (time: Date): bigint => BigInt(time.getTime()) * NANO_OF_MS;

/** Parses an RFC 3339 time to nanoseconds since 1970. Returns undefined if it is invalid or the zero time of the engine. */
export function nanoseconds(text: string): bigint | undefined {
  const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (parts === null) return undefined;
  const seconds = Date.parse(`${parts[1]}${parts[3]}`) / 1_000;
  if (!Number.isFinite(seconds) || seconds < 0) return undefined;
  return BigInt(seconds) * NANO + BigInt((parts[2] ?? "").padEnd(9, "0"));
}
