import type { Clock } from "@roamfleet/clock";
import type { FileAnswer, FileFailure, FileRequest } from "@roamfleet/protocol/link";
import { CLOSE } from "@roamfleet/protocol/paths";
import { ApiError, type Client, type Ending, type Frame, type Stream, Unreachable } from "@roamfleet/sdk";
import type { Failure } from "../failure.ts";
import { streamFailure } from "../stream-ending.ts";

/** A copy fails if it makes no progress for this long. */
const GIVE_UP_MS = 5 * 60_000;
const WAIT_MS_MIN = 500;
const WAIT_MS_MAX = 10_000;
/** Close codes after which a retry can succeed. */
const PASSING = new Set<number>([1001, 1006, 1011, CLOSE.draining, CLOSE.agent_offline]);

export interface SteadyOptions {
  client: Client;
  robot_id: string;
  clock: Clock;
  signal: AbortSignal;
  /** Called with a message for the user, once per interruption. */
  note: (text: string) => void;
}

/** A file session that reconnects after a disconnect as long as the copy makes progress. */
export class ReconnectingSession {
  readonly #options: SteadyOptions;
  #session: FileSession | undefined;
  #progressed_at: number;
  #opened = false;

  constructor(options: SteadyOptions) {
    this.#options = options;
    this.#progressed_at = options.clock.monotonic();
  }

  /** Records progress, which restarts the give-up timeout. */
  progressed(): void {
    this.#progressed_at = this.#options.clock.monotonic();
  }

  /** Runs `work` with the session, and again after each disconnect. Rejects with errors that a retry cannot fix. */
  async run<T>(work: (session: FileSession) => Promise<T>): Promise<T> {
    const { client, robot_id, clock, signal, note } = this.#options;
    let wait_ms = WAIT_MS_MIN;
    for (let cuts = 0; ; cuts += 1) {
      signal.throwIfAborted();
      const began = this.#progressed_at;
      try {
        this.#session ??= new FileSession(await client.stream("files", { robot_id, signal }));
        const done = await work(this.#session);
        this.answered();
        return done;
      } catch (error) {
        signal.throwIfAborted();
        // After a refusal by the robot, the session can be reused. After any other error it is closed, because unread bytes may still
        // arrive.
        if (error instanceof RobotRefused) throw error;
        this.#session?.close();
        this.#session = undefined;
        this.#requirePassing(error);
        if (this.#progressed_at > began) wait_ms = WAIT_MS_MIN;
        if (cuts === 0 || wait_ms === WAIT_MS_MIN) note("connection lost; reconnecting");
        await clock.sleep(wait_ms, signal);
        wait_ms = Math.min(WAIT_MS_MAX, wait_ms * 2);
      }
    }
  }

  close(): void {
    this.#session?.close();
  }

  /**
   * Throws an error that ends the copy: one that a retry cannot fix, or any error after GIVE_UP_MS without progress. Until the robot has
   * responded once, failed requests and an offline robot also end the copy.
   */
  #requirePassing(error: unknown): void {
    const is_late = this.#options.clock.monotonic() - this.#progressed_at > GIVE_UP_MS;
    if (error instanceof SessionBroken) {
      const is_passing = PASSING.has(error.ending.code) && (this.#opened || error.ending.code !== CLOSE.agent_offline);
      if (!is_passing || is_late) throw this.#failure(error);
    } else {
      const is_passing = error instanceof Unreachable ? error.passing : error instanceof ApiError && error.status >= 500;
      if (!is_passing || !this.#opened || is_late) throw error;
    }
  }

  /** Records that the robot has responded once. From then on, failed requests and an offline robot are retried. */
  answered(): void {
    this.#opened = true;
    this.progressed();
  }

  #failure({ ending }: SessionBroken): Failure | Error {
    return streamFailure(ending, { right: "copy files", again: AGAIN }) ?? new Error("the robot ended the session");
  }
}

export const AGAIN = "Run the same command again to resume the copy where it stopped.";

/** Thrown if the stream ended before a response arrived. */
export class SessionBroken extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super(ending.reason);
    this.ending = ending;
  }
}

/** Thrown if the robot refused the request. Contains the robot's reason. */
export class RobotRefused extends Error {
  readonly code: FileFailure;

  constructor(code: FileFailure, message: string) {
    super(message);
    this.code = code;
  }
}

type Answer<T extends FileAnswer["type"]> = Extract<FileAnswer, { type: T }>;

/** Sends file requests over one stream, one at a time. */
export class FileSession {
  readonly #stream: Stream;
  readonly #frames: AsyncIterator<Frame, void>;

  constructor(stream: Stream) {
    this.#stream = stream;
    this.#frames = stream[Symbol.asyncIterator]();
  }

  close(): void {
    this.#stream.close();
  }

  /** Sends a request and returns its response. Rejects with RobotRefused or SessionBroken. */
  async ask<T extends FileAnswer["type"]>(request: FileRequest, ...types: T[]): Promise<Answer<T>> {
    await this.say(request);
    return this.hear(...types);
  }

  say(request: FileRequest): Promise<void> {
    return this.#stream.send(JSON.stringify(request));
  }

  send(bytes: Uint8Array): Promise<void> {
    return this.#stream.send(bytes);
  }

  /** Returns the next response, which must have one of these types. */
  async hear<T extends FileAnswer["type"]>(...types: T[]): Promise<Answer<T>> {
    const next = await this.next();
    if (Buffer.isBuffer(next)) throw new Error("the robot sent bytes instead of a response");
    if (!(types as string[]).includes(next.type)) throw new Error(`the robot sent ${next.type} instead of ${types.join(" or ")}`);
    return next as Answer<T>;
  }

  /** Returns the robot's next message: bytes of a file, or a response. Rejects with RobotRefused if the response reports a failure. */
  async next(): Promise<Buffer | FileAnswer> {
    const { value, done } = await this.#frames.next();
    if (done === true) throw new SessionBroken(this.#stream.ending ?? { code: 1006, reason: "" });
    if (value.binary) return value.data;
    const answer = JSON.parse(value.data.toString("utf8")) as FileAnswer;
    if (answer.type === "failed") throw new RobotRefused(answer.code, answer.message);
    return answer;
  }
}

/** The result of copying one file. */
export interface FileResult {
  /** Size of the whole file. */
  bytes: number;
  /** Bytes transferred in the last attempt. */
  moved: number;
  sha256: string;
  /** Whether the target already had the same content, so that nothing was copied. */
  unchanged: boolean;
}
