import type { SocketStream } from "@roamfleet/sdk/browser";
import type { Explained } from "./ending.ts";
import { openLiveSocket } from "./live-socket.ts";

const SUBPROTOCOL = "roamfleet.shell.v1";
/** Maximum message size that the server accepts. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** Maximum bytes in the socket's send buffer. Further input waits in the queue, where it can be discarded. */
const SOCKET_BYTES_MAX = 128 * 1024;
/** Maximum bytes of waiting input; more is discarded. */
export const TYPED_BYTES_MAX = 16 * 1024 * 1024;
/** Maximum bytes of output that is not drawn yet. Browsers cannot apply backpressure to a socket, so more output ends the shell. */
const OUTPUT_BYTES_MAX = 32 * 1024 * 1024;
const AGAIN_MS = 20;

export interface ShellEnd {
  exit_code: number | undefined;
  signal: string | undefined;
  /** Undefined if the program exited. */
  why: Explained | undefined;
}

export interface ShellLinkOptions {
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

export interface ShellLink {
  type: (bytes: Uint8Array<ArrayBuffer>) => void;
  resize: (cols: number, rows: number) => void;
  /** Discards input that has not been sent. */
  dropTyped: () => void;
  close: () => void;
}

/** Opens a shell and transfers bytes in both directions until it ends. It never reconnects. */
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
