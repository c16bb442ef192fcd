import type { MessageReader } from "@foxglove/rosmsg2-serialization";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { UndecodedMessage } from "../adapter.ts";
import { findDefinitions, UnknownType } from "./definitions.ts";

/** Types whose definitions are kept. */
const TYPES_MAX = 1_000;

/** How long a type that is not known stays so. */
const UNKNOWN_MS = 10_000;

interface DecoderOptions {
  prefixes: readonly string[];
  distro: string | null;
  clock: Clock;
  log: Logger;
}

export type Decode = (bytes: Uint8Array) => unknown;

/** Reads messages of ROS 2 (CDR) by the definitions that are found for their types; each type is looked for once. */
export class Decoder {
  readonly #options: DecoderOptions;
  readonly #types = new Map<string, Promise<Decode>>();

  constructor(options: DecoderOptions) {
    this.#options = options;
  }

  /** How messages of a type are read; never rejects and never throws: what cannot be read becomes an UndecodedMessage. */
  find(type: string): Promise<Decode> {
    let found = this.#types.get(type);
    if (found === undefined) {
      // Forgotten altogether: names of types come from the network.
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
      log.info({ type, source }, "a type of ROS is decoded");
      return decodeBy(new MessageReader(definitions), type, source);
    } catch (error) {
      const reason = errorText(error);
      if (!(error instanceof UnknownType)) log.warn({ type, reason }, "the definition of a type of ROS is of no use");
      // Looked for again by and by: its package may be installed meanwhile.
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
