import http from "node:http";
import type Docker from "dockerode";
import { type Clock, type Timer, timeLimit } from "@roamfleet/clock";
import type { Logger } from "../../contract.ts";
import { StepFailure, throwIfAborted, unlessAborted } from "../failure.ts";
import { ENGINE_CALL_MS, ENGINE_GONE_MS, ENGINE_LINE_BYTES_MAX, type Timing } from "../limits.ts";
import { errorText, errorCode } from "../../disk/write-atomically.ts";
import { fieldsOf, parseObject } from "../../json.ts";

interface EngineOptions {
  /** In order of preference; the first that answers is used from then on. */
  sockets: readonly string[];
  clock: Clock;
  timing: Timing;
  log: Logger;
  /** Called when the engine has become reachable. */
  on_answer: () => void;
}

export interface CallOptions {
  /** The operation, for error messages. */
  what: string;
  signal: AbortSignal;
  /** Timeout of one attempt. Default: ENGINE_CALL_MS. */
  limit_ms?: number;
  /** How long to wait for an unreachable engine; default: `engine_wait_ms`. */
  wait_ms?: number;
}

const PING_TIMEOUT_MS = 3_000;
const RETRY_MS = 250;

/** A container engine (dockerd or podman) on a unix socket. It may start late, stop and return. */
export class Engine {
  readonly #options: EngineOptions;
  #socket: string | undefined;
  /** When the engine last answered, on the monotonic clock. */
  #answered_at = -Infinity;
  #timer: Timer | undefined;
  /** How often a call found the engine unreachable. */
  breaks = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  /** True if the engine has answered recently, so that its restart does not change which kinds of releases the robot can install. */
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
        // An engine may hang, and some of dockerode's calls take no signal: such a call is abandoned.
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
      // If the engine, or a proxy in front of it, refuses the stream, the stream's end does not mean that the engine has ended.
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

  /** Creates one client for each call, so that all its requests end with the call: an open request would keep the agent's process alive. */
  async #connect(call: AbortSignal): Promise<Docker> {
    // Loaded on demand: most robots that could run containers run none.
    const { default: Docker } = await import("dockerode");
    const docker = new Docker({ socketPath: this.#socket });
    const { modem } = docker;
    const dial = modem.dial.bind(modem);
    modem.dial = (options, callback) => dial({ ...options, abortSignal: options.abortSignal ?? call }, callback);
    return docker;
  }
}

/** Whether an engine answers at this socket. Never throws. */
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
/** Messages of an engine that is shutting down, or that has just lost its container runtime. */
const AWAY_WORDS =
  /transport is closing|connection error: desc|server is shutting down|daemon is shutting down|containerd.*connection refused|socket hang up|error reading from server: EOF|context canceled/i;

export function isAway(error: unknown): boolean {
  const code = errorCode(error);
  // A missing local file is no sign of an unreachable engine: only ENOENT of `connect` counts.
  if (code === "ENOENT" && (error as NodeJS.ErrnoException).syscall !== "connect") return false;
  if (code !== undefined && AWAY_CODES.has(code)) return true;
  return statusOf(error) !== 404 && AWAY_WORDS.test(errorText(error));
}

/** Returns the HTTP status of the engine's response; undefined for any other error. */
export function statusOf(error: unknown): number | undefined {
  const { statusCode } = fieldsOf(error);
  return typeof statusCode === "number" ? statusCode : undefined;
}

/** Returns the engine's error message, in words for an operator. */
export function engineMessage(error: unknown): string {
  return errorText(error)
    .replace(/^\(HTTP code \d+\) [^-]*- /, "")
    .trim();
}

/** Returns a failure with the reason that the engine's message indicates, or `otherwise`. */
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

/** Reads the engine's lines of JSON to their end; calls `line` for each. Throws the engine's error message as Error. */
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
