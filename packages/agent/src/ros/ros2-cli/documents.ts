import { StringDecoder } from "node:string_decoder";
import { parse } from "yaml";

/** The longest document that is read: reading holds up everything else, for a quarter of a second already here. */
export const ROS2_DOCUMENT_CHARACTERS_MAX = 128 * 1024;

const END = "---\n";

/** Cuts what `ros2 topic echo` prints into its documents. */
export class Documents {
  readonly #decoder = new StringDecoder("utf8");
  readonly #take: (text: string | undefined) => void;
  #text = "";
  /** Up to where no end was found. */
  #seen = 0;
  #too_long = false;

  /** `take` is called with each document, with undefined in the place of one that is too long. */
  constructor(take: (text: string | undefined) => void) {
    this.#take = take;
  }

  add(chunk: Buffer): void {
    this.#text += this.#decoder.write(chunk);
    for (let at = this.#end(); at !== -1; at = this.#end()) {
      this.#take(this.#too_long || at > ROS2_DOCUMENT_CHARACTERS_MAX ? undefined : this.#text.slice(0, at));
      this.#too_long = false;
      this.#text = this.#text.slice(at + END.length);
      this.#seen = 0;
    }
    if (this.#text.length <= ROS2_DOCUMENT_CHARACTERS_MAX) return;
    this.#too_long = true;
    // An end may have begun.
    this.#text = this.#text.slice(-END.length);
    this.#seen = 0;
  }

  /** Where the line of dashes is that ends the first document; -1: not there yet. */
  #end(): number {
    for (;;) {
      const at = this.#text.indexOf(END, this.#seen);
      if (at === -1) {
        this.#seen = Math.max(0, this.#text.length - END.length);
        return -1;
      }
      if (at === 0 || this.#text[at - 1] === "\n") return at;
      this.#seen = at + 1;
    }
  }
}

/** A document as a message: integers are numbers while they are exact, and bigint beyond. */
export function readDocument(text: string): unknown {
  return exact(parse(text, { intAsBigInt: true, maxAliasCount: 0, logLevel: "error" }));
}

function exact(value: unknown): unknown {
  if (typeof value === "bigint") return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  if (Array.isArray(value)) return value.map(exact);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, exact(field)]));
}
