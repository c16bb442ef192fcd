import type { FileAnswer, FileFailure, FileRequest } from "@roamfleet/protocol/link";
import type { Ending, Frame, Stream } from "@roamfleet/sdk";

/** The stream ended before a response arrived. */
export class SessionBroken extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super(ending.reason);
    this.ending = ending;
  }
}

/** The robot refused the request, with its reason. */
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

  /** Returns the next bytes of a file, or a response. Rejects with RobotRefused for a failure. */
  async next(): Promise<Buffer | FileAnswer> {
    const { value, done } = await this.#frames.next();
    if (done === true) throw new SessionBroken(this.#stream.ending ?? { code: 1006, reason: "" });
    if (value.binary) return value.data;
    const answer = JSON.parse(value.data.toString("utf8")) as FileAnswer;
    if (answer.type === "failed") throw new RobotRefused(answer.code, answer.message);
    return answer;
  }
}
