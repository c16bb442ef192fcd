import { spawnSync } from "node:child_process";
import process from "node:process";

/**
 * Resets the modes that a program may have left on when the connection was lost: cursor, wrapping, bracketed paste, mouse, keypad, colors.
 */
const RESET = "\u001b[?25h\u001b[?7h\u001b[?2004l\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?1l\u001b>\u001b[0m";
const LEAVE_SCREEN = "\u001b[?1049l";
const ENTERS_SCREEN = /\u001b\[\?(?:1049|1047|47)([hl])/g; // oxlint-disable-line no-control-regex
const STTY_MS_MAX = 5_000;
const ENDING_SIGNALS = { SIGTERM: 143, SIGHUP: 129, SIGQUIT: 131 } as const;

/** The local terminal while a remote program controls it. `close` restores its state. */
export class LocalTerminal {
  #raw = false;
  /** Output of `stty -g`; undefined without stty. */
  #settings: string | undefined;
  #in_screen = false;
  #said = false;
  #size: (() => void) | undefined;

  /** True if stdin and stdout are a terminal. */
  static get present(): boolean {
    return process.stdin.isTTY && process.stdout.isTTY;
  }

  get size(): { cols: number; rows: number } {
    const [cols, rows] = process.stdout.getWindowSize();
    // A terminal without a configured size reports 0.
    return { cols: cols || 80, rows: rows || 24 };
  }

  /** Switches to raw mode: every key goes to the remote end. */
  open(onResize: (size: { cols: number; rows: number }) => void): void {
    this.#raw = true;
    this.#makeRaw();
    this.#size = () => onResize(this.size);
    process.stdout.on("resize", this.#size);
    process.on("exit", this.#restore);
    for (const [name, code] of Object.entries(ENDING_SIGNALS)) process.on(name, () => process.exit(code));
  }

  /** Tracks terminal modes that the program sets. */
  watch(output: Uint8Array): void {
    this.#said = true;
    if (!output.includes(0x1b)) return;
    for (const [, letter] of Buffer.from(output).toString("latin1").matchAll(ENTERS_SCREEN)) this.#in_screen = letter === "h";
  }

  /** Restores the terminal. `orderly` is true if the program exited normally, and so has reset the modes that it had set. */
  close(orderly: boolean): void {
    if (orderly) {
      this.#in_screen = false;
      this.#said = false;
    }
    this.#restore();
    process.off("exit", this.#restore);
    if (this.#size !== undefined) process.stdout.off("resize", this.#size);
  }

  readonly #restore = (): void => {
    if (!this.#raw) return;
    this.#raw = false;
    // An interrupted program has not reset the terminal modes that it had set, so reset them here.
    if (this.#said) process.stdout.write(`${this.#in_screen ? LEAVE_SCREEN : ""}${RESET}\r\n`);
    if (this.#settings === undefined) process.stdin.setRawMode(false);
    else stty(this.#settings);
  };

  /** Switches to raw mode with stty, because Node's raw mode still converts newlines to CRLF, which breaks full-screen programs. */
  #makeRaw(): void {
    this.#settings = stty("-g");
    if (this.#settings === undefined || stty("raw", "-echo") === undefined) {
      this.#settings = undefined;
      process.stdin.setRawMode(true);
    }
  }
}

/** Runs stty on the terminal behind stdin; undefined if that fails. */
function stty(...words: string[]): string | undefined {
  const { status, stdout } = spawnSync("stty", words, { stdio: ["inherit", "pipe", "ignore"], timeout: STTY_MS_MAX, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

const NEWLINES = new Set([0x0a, 0x0d]);
const TILDE = 0x7e;

export type Escape = "disconnect" | "help";

/**
 * Detects `~.` (disconnect) and `~?` (help) at the beginning of a typed line, as ssh does. `~.` is the only way to leave a shell that does
 * not respond. `~~` sends one `~`.
 */
export class EscapeFilter {
  #at_start = true;
  #pending = false;

  /** Returns the bytes to send and the detected escapes. Bytes after `disconnect` are dropped. */
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
