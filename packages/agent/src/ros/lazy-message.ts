import { errorText } from "../disk/write-atomically.ts";
import { type RosMessage, UndecodedMessage } from "./adapter.ts";

/** A message that is decoded when it is first read, once; one that cannot be is an UndecodedMessage. */
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
      this.#message = new UndecodedMessage(bytes, `its bytes are not what its type says (${errorText(error)})`);
    }
    return this.#message;
  }
}
