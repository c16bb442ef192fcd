const KEPT_CHARACTERS = 4_096;
/** So that a reason fits into a WebSocket's close frame (123 bytes) after a short prefix. */
const SAID_CHARACTERS = 90;

/** The end of a program's standard error. */
export class StderrTail {
  #text = "";

  push(chunk: Uint8Array | string): void {
    this.#text = (this.#text + String(chunk)).slice(-KEPT_CHARACTERS);
  }

  /** The last line, without memory addresses and secrets; undefined if there was no output. */
  get line(): string | undefined {
    const lines = this.#text
      .split(/[\r\n]+/)
      .map((line) => withoutSecrets(line.replace(/^\[[^\]]*@ 0x[\da-f]+\]\s*/, "")).trim())
      .filter((line) => line !== "");
    return lines.at(-1)?.slice(0, SAID_CHARACTERS);
  }
}

/** Reduces each URL in a text to scheme and host, since many cameras have a password in the path. */
export function withoutSecrets(text: string): string {
  return text.replace(/\b([a-z][a-z\d+.-]*:\/\/)(?:[^\s/@]*@)*([^\s/?#'"]*)(?:[/?#][^\s'"]*?(?=:?(?:[\s'"]|$)))?/gi, "$1$2");
}
