import { spawnSync } from "node:child_process";
import process from "node:process";

/** What programs switch on and a cut connection leaves on: cursor, wrapping, paste brackets, mouse, keypad, colours. */
const RESET = "\u001b[?25h\u001b[?7h\u001b[?2004l\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?1l\u001b>\u001b[0m";
const LEAVE_SCREEN = "\u001b[?1049l";
const ENTERS_SCREEN = /\u001b\[\?(?:1049|1047|47)([hl])/g; // oxlint-disable-line no-control-regex
const STTY_MS_MAX = 5_000;
const ENDING_SIGNALS = { SIGTERM: 143, SIGHUP: 129, SIGQUIT: 131 } as const;

/** The terminal that rf runs on, handed over to a program elsewhere and taken back whatever happens. */
export class LocalTerminal {
  #raw = false;
  /** As `stty -g` says them; undefined without stty. */
  #settings: string | undefined;
  #in_screen = false;
  #said = false;
  #size: (() => void) | undefined;

  /** True when both ends of a person's terminal are there. */
  static get present(): boolean {
    return process.stdin.isTTY && process.stdout.isTTY;
  }

  get size(): { cols: number; rows: number } {
    const [cols, rows] = process.stdout.getWindowSize();
    // A terminal that nobody gave a size says 0.
    return { cols: cols || 80, rows: rows || 24 };
  }

  /** Every key is for the other end from now on. */
  open(onResize: (size: { cols: number; rows: number }) => void): void {
    this.#raw = true;
    this.#makeRaw();
    this.#size = () => onResize(this.size);
    process.stdout.on("resize", this.#size);
    process.on("exit", this.#restore);
    for (const [name, code] of Object.entries(ENDING_SIGNALS)) process.on(name, () => process.exit(code));
  }

  /** Keeps in mind what the program made of the terminal. */
  watch(output: Uint8Array): void {
    this.#said = true;
    if (!output.includes(0x1b)) return;
    for (const [, letter] of Buffer.from(output).toString("latin1").matchAll(ENTERS_SCREEN)) this.#in_screen = letter === "h";
  }

  /** `orderly`: the program ended by itself and tidied up behind it. */
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
    // A program that was cut off could not do it itself.
    if (this.#said) process.stdout.write(`${this.#in_screen ? LEAVE_SCREEN : ""}${RESET}\r\n`);
    if (this.#settings === undefined) process.stdin.setRawMode(false);
    else stty(this.#settings);
  };

  /** Node's raw mode still turns each newline into two characters, which moves the cursor of whatever draws a screen. */
  #makeRaw(): void {
    this.#settings = stty("-g");
    if (this.#settings === undefined || stty("raw", "-echo") === undefined) {
      this.#settings = undefined;
      process.stdin.setRawMode(true);
    }
  }
}

/** Asks or tells the terminal behind stdin; undefined when that cannot be. */
function stty(...words: string[]): string | undefined {
  const { status, stdout } = spawnSync("stty", words, { stdio: ["inherit", "pipe", "ignore"], timeout: STTY_MS_MAX, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}
