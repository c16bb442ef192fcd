import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { pageNonce } from "../../page-nonce.ts";
import { boundCounts } from "./terminal-bounds.ts";
import { openUnderPolicy } from "./terminal-policy.ts";
import { createTerminalWriter, type TerminalWriter } from "./terminal-writer.ts";

const SCROLLBACK_ROWS = 5_000;
const FONT = '"JetBrains Mono Variable", ui-monospace, monospace';
/** Minimum contrast for all colors that programs request (WCAG AA). */
const CONTRAST_MIN = 4.5;

const DARK: ITheme = {
  black: "#1c2326",
  red: "#ff8a80",
  green: "#3ecf9b",
  yellow: "#f0b54a",
  blue: "#7fb2ff",
  magenta: "#d7a1ff",
  cyan: "#66d4e0",
  white: "#e9edef",
  brightBlack: "#9aa5ac",
  brightRed: "#ffb3ac",
  brightGreen: "#7fe3bf",
  brightYellow: "#ffd48a",
  brightBlue: "#b0d0ff",
  brightMagenta: "#e9ccff",
  brightCyan: "#a4e8f0",
  brightWhite: "#ffffff",
};
const LIGHT: ITheme = {
  black: "#14181c",
  red: "#b3261e",
  green: "#0b6e51",
  yellow: "#8a5300",
  blue: "#1f5fbf",
  magenta: "#8332a8",
  cyan: "#0b6b7a",
  white: "#59636e",
  brightBlack: "#59636e",
  brightRed: "#b3261e",
  brightGreen: "#0b6e51",
  brightYellow: "#8a5300",
  brightBlue: "#1f5fbf",
  brightMagenta: "#8332a8",
  brightCyan: "#0b6b7a",
  brightWhite: "#14181c",
};

/** Returns the colors of the current theme. */
export function terminalTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string): string => style.getPropertyValue(name).trim();
  return {
    ...(document.documentElement.dataset["theme"] === "dark" ? DARK : LIGHT),
    background: token("--surface-sunken"),
    foreground: token("--ink"),
    cursor: token("--accent"),
    cursorAccent: token("--accent-ink"),
    selectionBackground: token("--accent"),
    selectionForeground: token("--accent-ink"),
  };
}

export interface OpenedTerminal {
  terminal: Terminal;
  /** For output of robots. Use the terminal's own `write` only for our own text. */
  writer: TerminalWriter;
  /** Resizes the terminal to its element. */
  fit: () => void;
  dispose: () => void;
}

export interface TerminalOptions {
  cols?: number;
  rows?: number;
  /** Whether input is disabled. */
  read_only?: boolean;
  screen_reader?: boolean;
  label: string;
}

/** Opens a terminal in an element after loading its font, which xterm measures. */
export async function openTerminal(holder: HTMLElement, options: TerminalOptions): Promise<OpenedTerminal> {
  // If it fails, the terminal uses a fallback font.
  await document.fonts.load(`13px ${FONT}`).catch(() => []);
  const terminal = new Terminal({
    ...(options.cols === undefined ? {} : { cols: options.cols }),
    ...(options.rows === undefined ? {} : { rows: options.rows }),
    disableStdin: options.read_only === true,
    screenReaderMode: options.screen_reader === true,
    scrollback: SCROLLBACK_ROWS,
    fontFamily: FONT,
    fontSize: 13,
    lineHeight: 1.2,
    cursorBlink: false,
    // xterm logs each character that it cannot parse.
    logLevel: "off",
    minimumContrastRatio: CONTRAST_MIN,
    theme: terminalTheme(),
  });
  boundCounts(terminal);
  const writer = createTerminalWriter(terminal);
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  openUnderPolicy(terminal, holder, pageNonce);
  terminal.textarea?.setAttribute("aria-label", options.label);
  const observer = new MutationObserver(() => (terminal.options.theme = terminalTheme()));
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return {
    terminal,
    writer,
    fit: () => fit.fit(),
    dispose: () => {
      writer.clear();
      observer.disconnect();
      terminal.dispose();
    },
  };
}
