import type { Socket } from "node:net";
import { type Channel, controlMessage, dataMessage, FRAME_PAYLOAD_BYTES_MAX, FrameError, readMessage } from "@robofleet/protocol/link";
import { drained } from "../drained.ts";

/** A message of so many bytes fills a frame, its tag included. */
const PIECE_BYTES_MAX = FRAME_PAYLOAD_BYTES_MAX - 1;
/** What may wait here for the channel; then the socket is not read. */
const WAITING_BYTES_MAX = 128 * 1024;
const CLOSE_ENDED = 4410;
const CLOSE_BAD_MESSAGE = 1008;

/**
 * Carries bytes between a connected socket and a channel, each way until its sender is done: a FIN is `eof` there and back. Neither is
 * read faster than the other takes it. The channel is told `open` first. Resolves when both are over; `reason` puts a socket's error into words.
 */
export async function carryTunnel(channel: Channel, socket: Socket, reason: (error: Error) => string): Promise<void> {
  let failed: Error | undefined;
  let over = false;
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", (error) => (failed = error));
  // The other end never closes in good order before us: its end is a reset, and whoever is connected must not take it for a FIN.
  void channel.ended.then(() => {
    if (!over) socket.resetAndDestroy();
  });
  const outward = new Outward(channel, socket);
  const inward = carryIn(channel, socket).catch((error: unknown) => {
    if (!(error instanceof FrameError)) throw error;
    over = true;
    channel.reset(CLOSE_BAD_MESSAGE, error.message);
    socket.resetAndDestroy();
  });
  await closed;
  if (failed === undefined) await outward.done;
  over = true;
  if (failed === undefined) channel.close();
  else channel.reset(CLOSE_ENDED, reason(failed));
  await inward;
}

async function carryIn(channel: Channel, socket: Socket): Promise<void> {
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data !== undefined) {
      if (!socket.write(data)) await drained(socket);
    } else if (control.type === "eof") socket.end();
    else if (control.type === "reset") socket.resetAndDestroy();
  }
}

/** From the socket into the channel. */
class Outward {
  /** Resolves when the channel has taken everything, the end included, or takes no more. */
  readonly done: Promise<void>;
  readonly #channel: Channel;
  readonly #socket: Socket;
  #waiting: Uint8Array[] = [];
  #waiting_bytes = 0;
  #writing = false;
  #ended = false;
  readonly #resolve: () => void;

  constructor(channel: Channel, socket: Socket) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.done = promise;
    this.#resolve = resolve;
    this.#channel = channel;
    this.#socket = socket;
    this.#say("open");
    socket.on("data", (bytes) => this.#take(bytes));
    socket.once("end", () => this.#end());
    // Without an end it was torn down: there is nothing to wait for.
    socket.once("close", () => {
      if (!this.#ended) this.#resolve();
    });
  }

  #take(bytes: Buffer): void {
    for (let offset = 0; offset < bytes.length; offset += PIECE_BYTES_MAX)
      this.#waiting.push(dataMessage(bytes.subarray(offset, offset + PIECE_BYTES_MAX)));
    this.#waiting_bytes += bytes.length;
    if (this.#waiting_bytes > WAITING_BYTES_MAX) this.#socket.pause();
    if (!this.#writing) void this.#write();
  }

  #end(): void {
    this.#ended = true;
    this.#say("eof");
  }

  #say(type: "open" | "eof"): void {
    const word = controlMessage({ type });
    this.#waiting_bytes += word.length - 1;
    this.#waiting.push(word);
    if (!this.#writing) void this.#write();
  }

  async #write(): Promise<void> {
    this.#writing = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (!(await this.#channel.write(next))) return this.#resolve();
      this.#waiting_bytes -= next.length - 1;
      if (this.#socket.isPaused() && this.#waiting_bytes <= WAITING_BYTES_MAX / 2) this.#socket.resume();
    }
    this.#writing = false;
    if (this.#ended) this.#resolve();
  }
}
