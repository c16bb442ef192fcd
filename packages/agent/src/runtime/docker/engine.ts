import http from "node:http";
import type Docker from "dockerode";
import { type Clock, type Timer, timeLimit } from "@roamfleet/clock";
import type { Logger } from "../../contract.ts";
import { StepFailure, throwIfAborted, unlessAborted } from "../failure.ts";
import { ENGINE_CALL_MS, ENGINE_GONE_MS, ENGINE_LINE_BYTES_MAX, type Timing } from "../limits.ts";
import { errorText, errorCode } from "../../disk/write-atomically.ts";
import { fieldsOf, parseObject } from "../../json.ts";

interface EngineOptions {
  /** Sockets in the order of preference. The first one that answers is used from then on. */
  sockets: readonly string[];
  clock: Clock;
  timing: Timing;
  log: Logger;
  /** Called when the engine has become reachable. */
  on_answer: () => void;
}

export interface CallOptions {
  /** Name of the operation, for error messages. */
  what: string;
  signal: AbortSignal;
  /** Timeout of one attempt; default: ENGINE_CALL_MS. */
  limit_ms?: number;
  /** Maximum wait for an unreachable engine; default: `engine_wait_ms`. */
  wait_ms?: number;
}

const PING_TIMEOUT_MS = 3_000;
const RETRY_MS = 250;

/** A container engine (dockerd or podman) at a unix socket. The engine may start after the agent, stop, and start again. */
export class Engine {
  readonly #options: EngineOptions;
  #socket: string | undefined;
  /** Time of the engine's last answer, on the monotonic clock. */
  #answered_at = -Infinity;
  #timer: Timer | undefined;
  /** Number of calls that found the engine unreachable. */
  breaks = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /**
   * Returns true if the engine has answered within ENGINE_GONE_MS. So a restart of the engine does not change which kinds of releases the
   * robot can install.
   */
  get available(): boolean {
    return this.#options.clock.monotonic() - this.#answered_at < ENGINE_GONE_MS;
  }

  async start(): Promise<void> {
    if (this.#options.sockets.length === 0 || this.#timer !== undefined) return;
    this.#timer = this.#options.clock.every(this.#options.timing.engine_check_ms, async () => void (await this.#look()));
    await this.#look();
  }

  close(): void {
    this.#timer?.cancel();
  }

  async #look(): Promise<boolean> {
    const sockets = this.#socket === undefined ? this.#options.sockets : [this.#socket, ...this.#options.sockets];
    for (const socket of sockets) {
      if (!(await ping(socket, this.#options.clock))) continue;
      const known = this.available;
      this.#answered_at = this.#options.clock.monotonic();
      this.#socket = socket;
      if (!known) {
        this.#options.log.info({ socket }, "container engine answers");
        this.#options.on_answer();
      }
      return true;
    }
    return false;
  }

  /**
   * Runs `work`, which calls the engine. While the engine is unreachable, `work` is retried, so it must be idempotent. Throws StepFailure
   * (`incompatible`: no engine has ever answered; `timeout`: the engine stayed unreachable, or took too long), StepAborted, or the engine's
   * error.
   */
  async use<T>(options: CallOptions, work: (docker: Docker, signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock, timing } = this.#options;
    const { what, signal, limit_ms = ENGINE_CALL_MS, wait_ms = timing.engine_wait_ms } = options;
    const deadline = clock.monotonic() + wait_ms;
    for (;;) {
      throwIfAborted(signal);
      if (this.#socket === undefined && !(await this.#look()))
        throw new StepFailure("incompatible", `no container engine answers at ${this.#options.sockets.join(" or ") || "any socket"}`);
      const late = new StepFailure("timeout", `the container engine did not ${what} within ${limit_ms / 1_000} s`);
      using limit = timeLimit(clock, limit_ms, late, signal);
      const call = limit.signal;
      try {
        // The engine may hang, and some methods of dockerode accept no abort signal. So after an abort, stop waiting for the call.
        const answer = await unlessAborted(
          call,
          this.#connect(call).then((docker) => work(docker, call)),
        );
        this.#answered_at = clock.monotonic();
        return answer;
      } catch (error) {
        throwIfAborted(signal);
        if (limit.expired) throw late;
        if (!isAway(error)) throw error;
        this.breaks += 1;
        if (clock.monotonic() >= deadline)
          throw new StepFailure(
            "timeout",
            `the container engine at ${this.#socket} stopped and did not respond again within ${wait_ms / 1_000} s`,
          );
      }
      await clock.sleep(RETRY_MS, signal);
    }
  }

  /** Like `use`, but returns undefined if the engine answers with one of these statuses. */
  async useUnless<T>(
    statuses: readonly number[],
    options: CallOptions,
    work: (docker: Docker, signal: AbortSignal) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await this.use(options, work);
    } catch (error) {
      if (statuses.includes(statusOf(error) ?? 0)) return undefined;
      throw error;
    }
  }

  /**
   * Returns an object whose `ended` becomes true when the engine's process ends, even if a new process already answers. It watches an event
   * stream, which stays open as long as the engine's process lives. The socket's inode does not show a restart: it stays the same when
   * systemd owns the socket. The caller must dispose the object.
   */
  watchRun(): Disposable & { readonly ended: boolean } {
    let ended = false;
    let refused = false;
    const never = encodeURIComponent(JSON.stringify({ label: ["roamfleet.no-event"] }));
    const request = http.get({ socketPath: this.#socket, path: `/events?filters=${never}`, agent: false }, (response) => {
      // The engine, or a proxy in front of it, refused the event stream. Then the end of the stream does not mean that the engine has
      // ended.
      if (response.statusCode !== 200) refused = true;
      response.on("error", () => {}).resume();
    });
    request.on("error", () => {}).on("close", () => (ended = !refused));
    return {
      get ended() {
        return ended;
      },
      [Symbol.dispose]: () => void request.destroy(),
    };
  }

  /** Creates a client for one call. Its requests end with the call, since an open request would keep the agent's process alive. */
  async #connect(call: AbortSignal): Promise<Docker> {
    // Import the library only when it is needed: most robots that could run containers run none.
    const { default: Docker } = await import("dockerode");
    const docker = new Docker({ socketPath: this.#socket });
    const { modem } = docker;
    const dial = modem.dial.bind(modem);
    modem.dial = (options, callback) => dial({ ...options, abortSignal: options.abortSignal ?? call }, callback);
    return docker;
  }
}

/** Returns whether an engine answers at this socket. Never throws. */
function ping(socketPath: string, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(PING_TIMEOUT_MS, () => request.destroy(new Error("no answer")));
    const end = (ok: boolean): void => {
      timer.cancel();
      request.destroy();
      resolve(ok);
    };
    const request = http.get({ socketPath, path: "/_ping", agent: false }, ({ statusCode }) => end(statusCode === 200));
    request.on("error", () => end(false));
  });
}

const AWAY_CODES = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ENOENT", "ECONNABORTED", "ERR_STREAM_PREMATURE_CLOSE"]);
/** Error messages of an engine that is shutting down or has just lost its container runtime. */
const AWAY_WORDS =
  /transport is closing|connection error: desc|server is shutting down|daemon is shutting down|containerd.*connection refused|socket hang up|error reading from server: EOF|context canceled/i;

export function isAway(error: unknown): boolean {
  const code = errorCode(error);
  // ENOENT of `connect` means that the engine is unreachable. For any other system call it only means that a local file is missing.
  if (code === "ENOENT" && (error as NodeJS.ErrnoException).syscall !== "connect") return false;
  if (code !== undefined && AWAY_CODES.has(code)) return true;
  return statusOf(error) !== 404 && AWAY_WORDS.test(errorText(error));
}

/** Returns the HTTP status of the engine's response; undefined for any other error. */
export function statusOf(error: unknown): number | undefined {
  const { statusCode } = fieldsOf(error);
  return typeof statusCode === "number" ? statusCode : undefined;
}

/** Returns the engine's error message in words that an operator understands. */
export function engineMessage(error: unknown): string {
  return errorText(error)
    .replace(/^\(HTTP code \d+\) [^-]*- /, "")
    .trim();
}

/** Converts an engine's error to a failure. The reason is derived from the error message; if that is not possible, it is `otherwise`. */
export function engineFailure(error: unknown, otherwise: ConstructorParameters<typeof StepFailure>[0]): StepFailure {
  if (error instanceof StepFailure) return error;
  const message = engineMessage(error);
  if (/no space left on device|disk quota exceeded|ENOSPC/i.test(message))
    return new StepFailure("insufficient_disk", `the container engine's disk is full: ${message}`, { cause: error });
  return new StepFailure(otherwise, message, { cause: error });
}

export interface ProgressLine {
  status?: string;
  id?: string;
  progressDetail?: { current?: number; total?: number };
  stream?: string;
  error?: string;
}

/**
 * Reads the engine's progress as lines of JSON and calls `line` for each. Throws an Error with the engine's message if a line reports an
 * error.
 */
export async function readProgress(stream: AsyncIterable<Uint8Array | string>, line: (progress: ProgressLine) => void): Promise<void> {
  const decoder = new TextDecoder();
  let kept = "";
  const take = (text: string): void => {
    if (text.trim() === "") return;
    const progress: ProgressLine | undefined = parseObject(text);
    if (progress === undefined) return;
    if (typeof progress.error === "string") throw new Error(progress.error);
    line(progress);
  };
  for await (const chunk of stream) {
    kept += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    const lines = kept.split("\n");
    kept = lines.pop() ?? "";
    for (const one of lines) take(one);
    if (kept.length > ENGINE_LINE_BYTES_MAX) throw new Error("the container engine sent a line that is too long");
  }
  take(kept);
}
