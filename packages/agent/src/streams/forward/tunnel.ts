import type { Socket } from "node:net";
import { type Channel, controlMessage, dataMessage, FrameError, readMessage } from "@roamfleet/protocol/link";
import { drained } from "@roamfleet/protocol/drained";

/** Maximum bytes that wait for the channel; beyond this the connection is paused until half of them are sent. */
const WAITING_BYTES_MAX = 128 * 1024;
const RESUME_BYTES = WAITING_BYTES_MAX / 2;
const CLOSE_ENDED = 4410;
const CLOSE_BAD_MESSAGE = 1008;

/**
 * Forwards bytes between a connected socket and a channel, each way until its sender is done: a FIN becomes `eof` and vice versa. Neither is read
 * faster than the other end accepts data. `open` is sent to the channel first. Resolves when both are closed; `reason` converts a socket's error to
 * words.
 */
export async function carryTunnel(channel: Channel, socket: Socket, outward: Outward, reason: (error: Error) => string): Promise<void> {
  let failed: Error | undefined;
  let over = false;
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", (error) => (failed = error));
  // The viewer's end never closes normally before ours: its end is a reset, and the service must not mistake it for a FIN.
  void channel.ended.then(() => {
    if (!over) socket.resetAndDestroy();
  });
  outward.begin(socket);
  const inward = carryIn(channel, socket).catch((error: unknown) => {
    over = true;
    channel.reset(CLOSE_BAD_MESSAGE, error instanceof FrameError ? error.message : "the robot could not handle a message of this tunnel");
    socket.resetAndDestroy();
  });
  await closed;
  if (failed === undefined) await outward.done;
  over = true;
  if (failed === undefined) channel.close();
  else channel.reset(CLOSE_ENDED, reason(failed));
  await inward;
}

async function carryIn(channel: Channel, connection: Socket): Promise<void> {
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data !== undefined) {
      if (!connection.write(data)) await drained(connection);
    } else if (control.type === "eof") connection.end();
    else if (control.type === "reset") connection.resetAndDestroy();
  }
}

/** The direction from a connection to a channel: forwards data as soon as there is a connection. */
export class Outward {
  /** Resolves when the channel has sent everything, including the end, or accepts no more. */
  readonly done: Promise<void>;
  readonly #channel: Channel;
  readonly #resolve: () => void;
  #socket: Socket | undefined;
  #waiting: Uint8Array[] = [controlMessage({ type: "open" })];
  #waiting_bytes = 0;
  #writing = false;
  #ended = false;

  constructor(channel: Channel) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.done = promise;
    this.#resolve = resolve;
    this.#channel = channel;
  }

  /** Copies received bytes; returns false if the connection must pause. */
  take(bytes: Uint8Array): boolean {
    this.#waiting.push(dataMessage(bytes));
    this.#waiting_bytes += bytes.length;
    if (this.#socket !== undefined && !this.#writing) void this.#write(this.#socket);
    return this.#waiting_bytes <= WAITING_BYTES_MAX;
  }

  begin(socket: Socket): void {
    this.#socket = socket;
    socket.once("end", () => {
      this.#ended = true;
      this.#waiting.push(controlMessage({ type: "eof" }));
      if (!this.#writing) void this.#write(socket);
    });
    // Without an end the connection was reset: there is nothing to wait for.
    socket.once("close", () => {
      if (!this.#ended) this.#resolve();
    });
    void this.#write(socket);
  }

  async #write(socket: Socket): Promise<void> {
    this.#writing = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      if (!(await this.#channel.write(next))) return this.#resolve();
      const had = this.#waiting_bytes;
      // A control message does not count as data of the connection.
      if (next[0] === 0) this.#waiting_bytes -= next.length - 1;
      if (had > RESUME_BYTES && this.#waiting_bytes <= RESUME_BYTES) socket.resume();
    }
    this.#writing = false;
    if (this.#ended) this.#resolve();
  }
}
