import type { MessageReader } from "@foxglove/rosmsg2-serialization";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { UndecodedMessage } from "../adapter.ts";
import { findDefinitions, UnknownType } from "./definitions.ts";

/** Maximum types whose definitions are cached. */
const TYPES_MAX = 1_000;

/** How long an unknown type is cached. */
const UNKNOWN_MS = 10_000;

interface DecoderOptions {
  prefixes: readonly string[];
  distro: string | null;
  clock: Clock;
  log: Logger;
}

export type Decode = (bytes: Uint8Array) => unknown;

/** Decodes ROS 2 messages (CDR) by the definitions of their types; each type is searched for once. */
export class Decoder {
  readonly #options: DecoderOptions;
  readonly #types = new Map<string, Promise<Decode>>();

  constructor(options: DecoderOptions) {
    this.#options = options;
  }

  /** Returns the decoder of a type. Never rejects and never throws: unreadable messages become an UndecodedMessage. */
  find(type: string): Promise<Decode> {
    let found = this.#types.get(type);
    if (found === undefined) {
      // Names of types come from the network, so the cache is limited: it is cleared when full.
      if (this.#types.size >= TYPES_MAX) this.#types.clear();
      found = this.#find(type);
      this.#types.set(type, found);
    }
    return found;
  }

  async #find(type: string): Promise<Decode> {
    const { prefixes, distro, clock, log } = this.#options;
    try {
      const [{ MessageReader }, { definitions, source }] = await Promise.all([
        import("@foxglove/rosmsg2-serialization"),
        findDefinitions(type, prefixes, distro),
      ]);
      log.info({ type, source }, "decoding a ROS type");
      return decodeBy(new MessageReader(definitions), type, source);
    } catch (error) {
      const reason = errorText(error);
      if (!(error instanceof UnknownType)) log.warn({ type, reason }, "the definition of a ROS type cannot be used");
      // Searched for again after a time: its package may be installed meanwhile.
      clock.setTimer(UNKNOWN_MS, () => this.#types.delete(type));
      return (bytes) => new UndecodedMessage(bytes, reason);
    }
  }
}

function decodeBy(reader: MessageReader, type: string, source: string): Decode {
  return (bytes) => {
    try {
      return reader.readMessage(bytes);
    } catch (error) {
      return new UndecodedMessage(bytes, `not what ${type} is by ${source}: ${errorText(error)}`);
    }
  };
}
