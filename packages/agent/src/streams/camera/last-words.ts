const KEPT_CHARACTERS = 4_096;
/** So that a reason fits into a WebSocket's close frame (123 bytes) with a few words before it. */
const SAID_CHARACTERS = 90;

/** What a program wrote to its standard error last. */
export class LastWords {
  #text = "";

  push(chunk: Uint8Array | string): void {
    this.#text = (this.#text + String(chunk)).slice(-KEPT_CHARACTERS);
  }

  /** Its last line, without addresses of memory and without secrets; undefined when it said nothing. */
  get line(): string | undefined {
    const lines = this.#text
      .split(/[\r\n]+/)
      .map((line) => withoutSecrets(line.replace(/^\[[^\]]*@ 0x[\da-f]+\]\s*/, "")).trim())
      .filter((line) => line !== "");
    return lines.at(-1)?.slice(0, SAID_CHARACTERS);
  }
}

/** Leaves of each address in a text what is no secret, scheme and host: many cameras take a password in the path. */
export function withoutSecrets(text: string): string {
  return text.replace(/\b([a-z][a-z\d+.-]*:\/\/)(?:[^\s/@]*@)*([^\s/?#'"]*)(?:[/?#][^\s'"]*?(?=:?(?:[\s'"]|$)))?/gi, "$1$2");
}
