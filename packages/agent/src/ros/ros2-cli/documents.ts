import { StringDecoder } from "node:string_decoder";
import { parse } from "yaml";

/** The longest document that is parsed: parsing blocks the event loop, for a quarter of a second at this size. */
export const ROS2_DOCUMENT_CHARACTERS_MAX = 128 * 1024;

const END = "---\n";

/** Splits the output of `ros2 topic echo` into YAML documents. */
export class Documents {
  readonly #decoder = new StringDecoder("utf8");
  readonly #take: (text: string | undefined) => void;
  #text = "";
  /** Offset up to which no end was found. */
  #seen = 0;
  #too_long = false;

  /** `take` is called with each document, or with undefined for one that is too long. */
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
    // The separator may have begun.
    this.#text = this.#text.slice(-END.length);
    this.#seen = 0;
  }

  /** Returns the offset of the line of dashes that ends the first document; -1: not received yet. */
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

/** Parses a document: integers are numbers while they are exact, and bigint beyond. */
export function readDocument(text: string): unknown {
  return exact(parse(text, { intAsBigInt: true, maxAliasCount: 0, logLevel: "error" }));
}

function exact(value: unknown): unknown {
  if (typeof value === "bigint") return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  if (Array.isArray(value)) return value.map(exact);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, exact(field)]));
}
