const NEWLINES = new Set([0x0a, 0x0d]);
const TILDE = 0x7e;

export type Escape = "disconnect" | "help";

/**
 * Detects `~.` and `~?` at the beginning of a typed line, as ssh does: the only way to leave a shell that does not respond. `~~` sends one
 * `~`.
 */
export class EscapeFilter {
  #at_start = true;
  #pending = false;

  /** Returns the bytes to send and the local request. Bytes after `disconnect` are dropped. */
  take(bytes: Uint8Array): { bytes: Uint8Array; escapes: Escape[] } {
    const out: number[] = [];
    const escapes: Escape[] = [];
    for (const byte of bytes) {
      if (this.#pending) {
        this.#pending = false;
        if (byte === 0x2e) return { bytes: Uint8Array.from(out), escapes: [...escapes, "disconnect"] };
        if (byte === 0x3f) {
          escapes.push("help");
          continue;
        }
        out.push(TILDE);
        this.#at_start = false;
        if (byte === TILDE) continue;
      } else if (this.#at_start && byte === TILDE) {
        this.#pending = true;
        continue;
      }
      out.push(byte);
      this.#at_start = NEWLINES.has(byte);
    }
    return { bytes: Uint8Array.from(out), escapes };
  }
}
