import { type Activity, idleActivity } from "@robofleet/clock";

/** Strict: a frame of a later class leaves only when none of an earlier one waits. */
export const PRIORITIES = ["control", "logs"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** What may wait here for each class, in bytes. */
export const QUEUE_BYTES_MAX: Record<Priority, number> = { control: 1024 * 1024, logs: 1024 * 1024 };
/** What may wait in the socket: frames there can no longer be overtaken. Later the receiver's credit and the measured rate narrow it for bulk. */
export const SOCKET_BYTES_MAX: Record<Priority, number> = { control: 512 * 1024, logs: 128 * 1024 };

/** The part of a WebSocket that sending needs. */
export interface FrameSocket {
  readonly bufferedAmount: number;
  send(data: Buffer, sent: (error?: Error) => void): void;
}

/** The only way to the socket: bounded, and control overtakes logs frame by frame. */
export class SendQueue {
  readonly #socket: FrameSocket;
  readonly #activity: Activity;
  readonly #on_room: () => void;
  #waiting: Record<Priority, Buffer[]> = { control: [], logs: [] };
  #bytes: Record<Priority, number> = { control: 0, logs: 0 };
  #closed = false;

  /** `on_room` is called after frames have left, when there may be room for more. */
  constructor(socket: FrameSocket, on_room: () => void, activity: Activity = idleActivity) {
    this.#socket = socket;
    this.#on_room = on_room;
    this.#activity = activity;
  }

  /** Bytes that can still be pushed in this class. */
  room(priority: Priority): number {
    return this.#closed ? 0 : QUEUE_BYTES_MAX[priority] - this.#bytes[priority];
  }

  /** Takes all frames of a message or, when they do not fit or the link is closed, none (false). A message fits into an empty class whatever its size. */
  push(priority: Priority, frames: Buffer[]): boolean {
    if (this.#closed) return false;
    const bytes = frames.reduce((sum, frame) => sum + frame.length, 0);
    if (this.#bytes[priority] > 0 && bytes > this.room(priority)) return false;
    this.#waiting[priority].push(...frames);
    this.#bytes[priority] += bytes;
    this.#pump();
    return true;
  }

  /** Forgets what waits; the socket's own buffer is closed with it. */
  close(): void {
    this.#closed = true;
    this.#waiting = { control: [], logs: [] };
    this.#bytes = { control: 0, logs: 0 };
  }

  #pump(): void {
    for (const priority of PRIORITIES) {
      const waiting = this.#waiting[priority];
      while (waiting.length > 0) {
        if (this.#socket.bufferedAmount >= SOCKET_BYTES_MAX[priority]) return;
        this.#send(priority, waiting.shift()!);
      }
    }
  }

  #send(priority: Priority, frame: Buffer): void {
    this.#bytes[priority] -= frame.length;
    const ended = this.#activity.begin();
    this.#socket.send(frame, (error) => {
      ended();
      // An error closes the socket too: its close event ends the session.
      if (error || this.#closed) return;
      this.#pump();
      this.#on_room();
    });
  }
}
