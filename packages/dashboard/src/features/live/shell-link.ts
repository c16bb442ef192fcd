import type { SocketStream } from "@roamfleet/sdk/browser";
import type { Explained } from "./ending.ts";
import { openLiveSocket } from "./live-socket.ts";

const SUBPROTOCOL = "roamfleet.shell.v1";
/** The server takes no longer message. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** So much is handed to the socket ahead; the rest waits here, where it can be taken back. */
const SOCKET_BYTES_MAX = 128 * 1024;
/** What was typed or pasted and waits; more is not taken. */
export const TYPED_BYTES_MAX = 16 * 1024 * 1024;
/** What came and is not drawn yet: a browser cannot ask a socket to wait, so a shell that goes beyond is ended. */
const OUTPUT_BYTES_MAX = 32 * 1024 * 1024;
const AGAIN_MS = 20;

export interface ShellEnd {
  exit_code: number | undefined;
  signal: string | undefined;
  /** Undefined: the program ended by itself. */
  why: Explained | undefined;
}

export interface ShellLinkOptions {
  robot_id: string;
  app: string | undefined;
  cols: number;
  rows: number;
  /** Draws bytes and calls `done` when that is so. */
  onOutput: (bytes: Uint8Array, done: () => void) => void;
  onOpen: () => void;
  /** How much waits to be sent, in bytes; said when it changes much. */
  onWaiting: (bytes: number) => void;
  /** More was typed than may wait: it was not taken. */
  onFull: () => void;
  onEnd: (end: ShellEnd) => void;
}

export interface ShellLink {
  type: (bytes: Uint8Array<ArrayBuffer>) => void;
  resize: (cols: number, rows: number) => void;
  /** Forgets what was typed and has not been sent. */
  dropTyped: () => void;
  close: () => void;
}

/** One shell, from its opening to its end: bytes either way as they are. It is never opened again by itself. */
export function openShellLink(options: ShellLinkOptions): ShellLink {
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
          text: "The program printed faster than this page can show, so the shell was ended. `rf robots shell` makes such a program wait.",
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

/** What is typed, handed on as fast as the robot takes it. */
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
