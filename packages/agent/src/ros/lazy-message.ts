import { errorText } from "../disk/write-atomically.ts";
import { type RosMessage, UndecodedMessage } from "./adapter.ts";

/** A message that is decoded once, on first access; it becomes an UndecodedMessage if it cannot be decoded. */
export class LazyMessage implements RosMessage {
  readonly type: string;
  readonly at: Date;
  #bytes: Uint8Array | undefined;
  readonly #decode: (bytes: Uint8Array) => unknown;
  #message: unknown;

  constructor(type: string, at: Date, bytes: Uint8Array, decode: (bytes: Uint8Array) => unknown) {
    this.type = type;
    this.at = at;
    this.#bytes = bytes;
    this.#decode = decode;
  }

  get message(): unknown {
    const bytes = this.#bytes;
    if (bytes === undefined) return this.#message;
    this.#bytes = undefined;
    try {
      this.#message = this.#decode(bytes);
    } catch (error) {
      this.#message = new UndecodedMessage(bytes, `its bytes do not match its type (${errorText(error)})`);
    }
    return this.#message;
  }
}
