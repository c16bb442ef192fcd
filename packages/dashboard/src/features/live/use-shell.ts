import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import { openShellLink, type ShellEnd, type ShellLink } from "./shell-link.ts";
import { type OpenedTerminal, openTerminal } from "./terminal.ts";

export type ShellState = { is: "idle" } | { is: "connecting" } | { is: "open" } | ({ is: "ended" } & ShellEnd);

/** What a program that was cut off may have left behind: colours, a hidden cursor, reports of the mouse, marked pastes. */
const TIDY = "\u001b[0m\u001b[?25h\u001b[?1000l\u001b[?1002l\u001b[?1003l\u001b[?1006l\u001b[?2004l";
const LEAVE_OTHER_SCREEN = "\u001b[?1049l";
const utf8 = new TextEncoder();

export interface UsedShell {
  state: ShellState;
  /** Typed and not sent yet, in bytes. */
  waiting_bytes: number;
  is_full: boolean;
  /** The terminal is there. */
  is_ready: boolean;
  open: () => void;
  close: () => void;
  dropTyped: () => void;
  focus: () => void;
}

/** A terminal in `holder`, and the shell that is open in it. Leaving the page ends the shell. */
export function useShell(options: {
  holder: RefObject<HTMLElement | null>;
  /** Where the focus goes by the keys that leave the terminal. */
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
      if (old.is === "ended") writer.write(`\r\n\r\n\u001b[2m── a new shell ──\u001b[0m\r\n\r\n`);
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
        // Behind all that is still to be drawn: only then it is known which screen it is.
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

/** Makes the terminal, ties it to whatever shell is open, and keeps it as large as its holder. */
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
    void openTerminal(element, { label: "Terminal of the robot. Ctrl-Shift-Up leaves it." }).then((made) => {
      if (is_over) return made.dispose();
      opened = made;
      const { terminal, fit } = made;
      terminal.onData((text) => link.current?.type(utf8.encode(text)));
      // Reports of the mouse: bytes, a character each.
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

/** Every key is the shell's, but for copy, paste and the way out. False: xterm leaves it alone. */
function takeKey(event: KeyboardEvent, { terminal }: OpenedTerminal, leave: () => void): boolean {
  if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true;
  // The browser itself pastes as text.
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
