import type { SocketStream } from "@roamfleet/sdk/browser";
import { type RefObject, useCallback, useEffect, useRef, useState } from "react";
import type { Explained } from "./ending.ts";
import { openLiveSocket } from "./live-stream.tsx";
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
  /** Called when the user presses the keys that leave the terminal. Must move the focus out of the terminal. */
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
        // Wait for all pending output, because it may still switch the active screen.
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
      // xterm passes mouse reports as strings with one byte per character.
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
  // Leave Ctrl-Shift-V to the browser, which pastes as plain text.
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

const SUBPROTOCOL = "roamfleet.shell.v1";
/** Maximum message size that the server accepts. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** Maximum bytes in the socket's send buffer. Further input waits in the queue, where it can be discarded. */
const SOCKET_BYTES_MAX = 128 * 1024;
/** Maximum bytes of waiting input; more is discarded. */
const TYPED_BYTES_MAX = 16 * 1024 * 1024;
/** Maximum bytes of output that is not drawn yet. Browsers cannot apply backpressure to a socket, so more output ends the shell. */
const OUTPUT_BYTES_MAX = 32 * 1024 * 1024;
const AGAIN_MS = 20;

interface ShellEnd {
  exit_code: number | undefined;
  signal: string | undefined;
  /** Explains why the shell ended; undefined if its program exited. */
  why: Explained | undefined;
}

interface ShellLinkOptions {
  robot_id: string;
  app: string | undefined;
  cols: number;
  rows: number;
  /** Draws output and calls `done` afterwards. */
  onOutput: (bytes: Uint8Array, done: () => void) => void;
  onOpen: () => void;
  /** Reports the bytes of waiting input after significant changes. */
  onWaiting: (bytes: number) => void;
  /** Called when input was discarded because the queue is full. */
  onFull: () => void;
  onEnd: (end: ShellEnd) => void;
}

interface ShellLink {
  type: (bytes: Uint8Array<ArrayBuffer>) => void;
  resize: (cols: number, rows: number) => void;
  /** Discards input that has not been sent. */
  dropTyped: () => void;
  close: () => void;
}

/** Opens a shell and transfers bytes in both directions until it ends. It never reconnects. */
function openShellLink(options: ShellLinkOptions): ShellLink {
  let exit: { code: number; signal: string | undefined } | undefined;
  let undrawn_bytes = 0;
  let own_why: Explained | undefined;
  const typed = createTypedQueue(options);
  const socket = openLiveSocket({
    name: "shell",
    id: options.robot_id,
    query: { cols: options.cols, rows: options.rows, term: "xterm-256color", app: options.app },
    protocols: [SUBPROTOCOL],
    what: "this shell",
    onOpen: () => {
      options.onOpen();
      typed.start(socket);
    },
    onFrame: (data) => {
      if (typeof data === "string") {
        const said = readExit(data);
        if (said !== undefined) exit = said;
        return;
      }
      undrawn_bytes += data.byteLength;
      if (undrawn_bytes > OUTPUT_BYTES_MAX) {
        own_why ??= {
          title: "Too much output",
          text: "The program printed faster than this page can display, so the shell was ended. Use `rf robots shell`, which slows such a program down.",
          again: "later",
        };
        return socket.close();
      }
      options.onOutput(new Uint8Array(data), () => (undrawn_bytes -= data.byteLength));
    },
    onEnd: (why) => {
      typed.stop();
      options.onEnd({ exit_code: exit?.code, signal: exit?.signal, why: own_why ?? (exit === undefined ? why : undefined) });
    },
  });
  return {
    type: (bytes) => typed.add(bytes),
    resize: (cols, rows) => socket.send(JSON.stringify({ type: "resize", cols, rows })),
    dropTyped: () => typed.drop(),
    close: () => {
      typed.stop();
      socket.close();
    },
  };
}

function readExit(text: string): { code: number; signal: string | undefined } | undefined {
  try {
    const { type, code, signal } = JSON.parse(text) as Record<string, unknown>;
    return type === "exit" && typeof code === "number" ? { code, signal: typeof signal === "string" ? signal : undefined } : undefined;
  } catch {
    return undefined;
  }
}

/** Queues input and sends it as fast as the robot accepts it. */
function createTypedQueue({ onWaiting, onFull }: Pick<ShellLinkOptions, "onWaiting" | "onFull">) {
  let queue: Uint8Array<ArrayBuffer>[] = [];
  let waiting_bytes = 0;
  let socket: SocketStream | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const pump = (): void => {
    timer = undefined;
    if (socket === undefined) return;
    while (queue.length > 0 && socket.waiting_bytes < SOCKET_BYTES_MAX) {
      const next = queue[0]!;
      const part = next.subarray(0, MESSAGE_BYTES_MAX);
      socket.send(part);
      waiting_bytes -= part.length;
      if (part.length === next.length) queue.shift();
      else queue[0] = next.subarray(part.length);
    }
    onWaiting(waiting_bytes);
    if (queue.length > 0) timer = setTimeout(pump, AGAIN_MS);
  };
  return {
    start(opened: SocketStream): void {
      socket = opened;
      pump();
    },
    add(bytes: Uint8Array<ArrayBuffer>): void {
      if (waiting_bytes + bytes.length > TYPED_BYTES_MAX) return onFull();
      queue.push(bytes);
      waiting_bytes += bytes.length;
      if (timer === undefined) pump();
    },
    drop(): void {
      queue = [];
      waiting_bytes = 0;
      onWaiting(0);
    },
    stop(): void {
      clearTimeout(timer);
      socket = undefined;
      queue = [];
      waiting_bytes = 0;
      onWaiting(0);
    },
  };
}
