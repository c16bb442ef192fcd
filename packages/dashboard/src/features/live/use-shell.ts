import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { openShellLink, type ShellEnd, type ShellLink } from "./shell-link.ts";
import { type OpenedTerminal, openTerminal } from "./terminal.ts";

export type ShellState = { is: "idle" } | { is: "connecting" } | { is: "open" } | ({ is: "ended" } & ShellEnd);

/** Resets terminal modes that an interrupted program may have left: colors, hidden cursor, mouse reports, bracketed paste. */
const TIDY = "\u001b[0m\u001b[?25h\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?2004l";
const LEAVE_OTHER_SCREEN = "\u001b[?1049l";
const utf8 = new TextEncoder();

export interface UsedShell {
  state: ShellState;
  /** Bytes of input that are not sent yet. */
  waiting_bytes: number;
  is_full: boolean;
  /** Whether the terminal is open. */
  is_ready: boolean;
  open: () => void;
  close: () => void;
  dropTyped: () => void;
  focus: () => void;
}

/** A terminal in `holder` with a shell. Leaving the page ends the shell. */
export function useShell(options: {
  holder: RefObject<HTMLElement | null>;
  /** Called by the keys that leave the terminal: moves the focus elsewhere. */
  onLeave: () => void;
  robot_id: string;
  app: string | undefined;
  screen_reader: boolean;
}): UsedShell {
  const { holder, robot_id, app, screen_reader } = options;
  const [opened, setOpened] = useState<OpenedTerminal>();
  const [state, setState] = useState<ShellState>({ is: "idle" });
  const [waiting_bytes, setWaiting] = useState(0);
  const [is_full, setFull] = useState(false);
  const link = useRef<ShellLink>(undefined);
  const leave = useRef(options.onLeave);
  useEffect(() => void (leave.current = options.onLeave));
  useTerminal({ holder, link, leave, setOpened });
  useEffect(() => {
    if (opened !== undefined) opened.terminal.options.screenReaderMode = screen_reader;
  }, [opened, screen_reader]);
  useEffect(() => () => link.current?.close(), []);

  const open = useCallback(() => {
    if (opened === undefined || link.current !== undefined) return;
    const { terminal, writer, fit } = opened;
    fit();
    setState((old) => {
      if (old.is === "ended") writer.write(`\r\n\r\n\u001b[2m── new shell ──\u001b[0m\r\n\r\n`);
      return { is: "connecting" };
    });
    setFull(false);
    link.current = openShellLink({
      robot_id,
      app,
      cols: terminal.cols,
      rows: terminal.rows,
      onOutput: writer.write,
      onOpen: () => {
        setState({ is: "open" });
        terminal.focus();
      },
      onWaiting: setWaiting,
      onFull: () => setFull(true),
      onEnd: (end) => {
        link.current = undefined;
        setState({ is: "ended", ...end });
        // After all pending output: only then the active screen is known.
        writer.after(() => writer.write(terminal.buffer.active.type === "alternate" ? LEAVE_OTHER_SCREEN + TIDY : TIDY));
      },
    });
    terminal.focus();
  }, [opened, robot_id, app]);
  return {
    state,
    waiting_bytes,
    is_full,
    is_ready: opened !== undefined,
    open,
    close: () => link.current?.close(),
    dropTyped: () => {
      link.current?.dropTyped();
      setFull(false);
    },
    focus: () => opened?.terminal.focus(),
  };
}

/** Creates the terminal, connects it to the open shell, and resizes it with its element. */
function useTerminal(options: {
  holder: RefObject<HTMLElement | null>;
  link: RefObject<ShellLink | undefined>;
  leave: RefObject<() => void>;
  setOpened: (opened: OpenedTerminal | undefined) => void;
}): void {
  const { holder, link, leave, setOpened } = options;
  useEffect(() => {
    const element = holder.current;
    if (element === null) return undefined;
    let is_over = false;
    let opened: OpenedTerminal | undefined;
    let observer: ResizeObserver | undefined;
    void openTerminal(element, { label: "Robot terminal. Ctrl-Shift-Up leaves it." }).then((made) => {
      if (is_over) return made.dispose();
      opened = made;
      const { terminal, fit } = made;
      terminal.onData((text) => link.current?.type(utf8.encode(text)));
      // Mouse reports: one byte per character.
      terminal.onBinary((text) => link.current?.type(Uint8Array.from(text, (character) => character.charCodeAt(0) & 0xff)));
      terminal.onResize(({ cols, rows }) => link.current?.resize(cols, rows));
      terminal.attachCustomKeyEventHandler((event) => takeKey(event, made, leave.current));
      observer = new ResizeObserver(fit);
      observer.observe(element);
      fit();
      setOpened(made);
    });
    return () => {
      is_over = true;
      observer?.disconnect();
      opened?.dispose();
      setOpened(undefined);
    };
  }, [holder, link, leave, setOpened]);
}

/** Passes all keys to the shell except copy, paste and the key that leaves the terminal. Returns false if xterm must ignore the key. */
function takeKey(event: KeyboardEvent, { terminal }: OpenedTerminal, leave: () => void): boolean {
  if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true;
  // The browser pastes as plain text.
  if (event.code === "KeyV") return false;
  if (event.code === "KeyC") {
    event.preventDefault();
    if (event.type === "keydown" && terminal.hasSelection()) void navigator.clipboard?.writeText(terminal.getSelection()).catch(() => {});
    return false;
  }
  if (event.code !== "ArrowUp") return true;
  event.preventDefault();
  if (event.type === "keydown") leave();
  return false;
}
