import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { pageNonce } from "../../page-nonce.ts";

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
function terminalTheme(): ITheme {
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
  /** Writes the output of a robot, which is untrusted. Use the terminal's own `write` only for text of the dashboard. */
  writer: TerminalWriter;
  /** Resizes the terminal to its element. */
  fit: () => void;
  dispose: () => void;
}

interface TerminalOptions {
  cols?: number;
  rows?: number;
  /** Whether input is disabled. */
  read_only?: boolean;
  screen_reader?: boolean;
  label: string;
}

/** Opens a terminal in an element after loading its font, which xterm measures. */
export async function openTerminal(holder: HTMLElement, options: TerminalOptions): Promise<OpenedTerminal> {
  // If the font cannot be loaded, the terminal uses a fallback font.
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

/** Maximum number of tab stops by which one control sequence moves the cursor. It is enough for a row of any width. */
const TABS_MAX = 1_000;

/**
 * Maximum counts of the control sequences that xterm does not bound: xterm repeats work or allocates memory once per count, up to 2^31
 * times. A count above the maximum has no further visible effect. xterm clamps the counts of all other sequences to the size of the screen.
 */
const COUNTED: Record<string, (terminal: Terminal) => number> = {
  // REP
  b: ({ cols, rows }) => cols * rows,
  // IL, DL, SU, SD
  L: ({ rows }) => rows,
  M: ({ rows }) => rows,
  S: ({ rows }) => rows,
  T: ({ rows }) => rows,
  // CHT, CBT
  I: () => TABS_MAX,
  Z: () => TABS_MAX,
};

/** Clamps the counts of control sequences before xterm runs them: `CSI 999999999 b` would freeze the page or exhaust its memory. */
function boundCounts(terminal: Terminal): void {
  // Use xterm's internal API: its handlers share one array of parameters, so a change reaches xterm. The public API passes copies.
  const { _core } = terminal as unknown as ParserInsides;
  for (const [final, most] of Object.entries(COUNTED))
    _core.registerCsiHandler({ final }, ({ params }) => {
      params[0] = Math.min(params[0] ?? 0, most(terminal));
      return false;
    });
}

/** Internals of xterm 6 that run control sequences. */
interface ParserInsides {
  _core: { registerCsiHandler: (id: { final: string }, handle: (params: { params: Int32Array }) => boolean) => unknown };
}

/* oxlint-disable no-underscore-dangle -- these are names of xterm's own */

/**
 * Opens a terminal on a page whose content security policy allows only styles with its nonce. xterm creates style elements without a
 * nonce and writes colors into style attributes. Its option documentOverride covers neither the scrollbar's style nor the rows, so both
 * are patched here. tests/dashboard checks that the policy blocks nothing.
 */
function openUnderPolicy(terminal: Terminal, holder: HTMLElement, nonce: string | undefined): void {
  const make = document.createElement.bind(document);
  document.createElement = (...args: Parameters<typeof make>): HTMLElement => {
    const element = make(...args);
    if (element instanceof HTMLStyleElement && nonce !== undefined) element.nonce = nonce;
    return element;
  };
  try {
    terminal.open(holder);
  } finally {
    // Remove the temporary `createElement`, so that the original one of the prototype applies again.
    Reflect.deleteProperty(document, "createElement");
  }
  const rows = (terminal as unknown as RendererInsides)._core?._renderService?._renderer?.value?._rowFactory;
  // The policy blocks the style attribute but not changes of the `style` property.
  if (rows !== undefined) rows._addStyle = (element, style) => void (element.style.cssText += style);
}

/** Internals of xterm 6 that create the spans of rows. */
interface RendererInsides {
  _core?: {
    _renderService?: { _renderer?: { value?: { _rowFactory?: { _addStyle: (element: HTMLElement, style: string) => void } } } };
  };
}

/**
 * Characters that xterm parses without a pause. Sequences of three characters may rewrite the whole screen, so a longer slice could
 * block the page for seconds.
 */
const SLICE_CHARACTERS = 1_024;
/**
 * Matches a mark, which xterm adds to the cell of the character before. Browsers take minutes to draw a cell with a million marks, so
 * only the first MARKS_MAX marks of a run are kept. The control character DEL does not end a run.
 */
const MARK = "[\\p{M}\\p{Cf}\\u1160-\\u11ff\\u007f]";
const MARKS_MAX = 16;
const MARKS = new RegExp(`(${MARK}{${MARKS_MAX}})${MARK}+`, "gu");
const LAST_MARKS = new RegExp(`${MARK}{0,${MARKS_MAX}}$`, "u");
/** Finished entries are removed from the queue in one batch when this many have accumulated. */
const FINISHED_MAX = 256;

type Work = { text: string; at: number; done: (() => void) | undefined } | (() => void);

interface TerminalWriter {
  /** Draws text, or UTF-8 bytes that may end inside a character. Calls `done` when the output is drawn. */
  write: (output: Uint8Array | string, done?: () => void) => void;
  /** Calls `work` after all earlier output is drawn. */
  after: (work: () => void) => void;
  /** Drops the output that is not drawn yet, without calling its `done`. */
  clear: () => void;
}

/**
 * Writes to a terminal in slices, and waits until a slice is drawn before it writes the next one. The page stays responsive for any
 * output, and xterm's own queue, which throws when it is full, stays empty.
 */
function createTerminalWriter(terminal: Terminal): TerminalWriter {
  const decoder = new TextDecoder();
  let last_marks = "";
  const withFewMarks = (slice: string): string => {
    const text = (last_marks + slice).replace(MARKS, "$1");
    const added = text.slice(last_marks.length);
    last_marks = LAST_MARKS.exec(text)?.[0] ?? "";
    return added;
  };
  let queue: Work[] = [];
  let next = 0;
  let is_running = false;
  const run = (): void => {
    if (next >= FINISHED_MAX) {
      queue = queue.slice(next);
      next = 0;
    }
    const work = queue[next];
    is_running = work !== undefined;
    if (work === undefined) {
      queue = [];
      next = 0;
    } else if (typeof work === "function") {
      next += 1;
      terminal.write("", () => {
        work();
        run();
      });
    } else {
      const end = sliceEnd(work.text, work.at);
      const slice = withFewMarks(work.text.slice(work.at, end));
      work.at = end;
      const is_last = end >= work.text.length;
      if (is_last) next += 1;
      terminal.write(slice, () => {
        if (is_last) work.done?.();
        run();
      });
    }
  };
  const add = (work: Work): void => {
    queue.push(work);
    if (!is_running) run();
  };
  return {
    write: (output, done) => add({ text: typeof output === "string" ? output : decoder.decode(output, { stream: true }), at: 0, done }),
    after: add,
    clear: () => {
      queue = [];
      next = 0;
    },
  };
}

/** Returns the end of the slice that starts at `from`. A slice never ends between the halves of a surrogate pair. */
function sliceEnd(text: string, from: number): number {
  const end = from + SLICE_CHARACTERS;
  const last = text.charCodeAt(end - 1);
  return last >= 0xd800 && last <= 0xdbff ? end + 1 : end;
}
