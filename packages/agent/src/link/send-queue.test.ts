import assert from "node:assert/strict";
import { test } from "node:test";
import { QUEUE_BYTES_MAX, SendQueue, SOCKET_BYTES_MAX } from "./send-queue.ts";

/** A socket whose other end reads only when told to. */
class StuckSocket {
  bufferedAmount = 0;
  readonly sent: string[] = [];
  readonly #callbacks: { bytes: number; done: () => void }[] = [];

  send(data: Buffer, done: () => void): void {
    this.sent.push(data.toString("latin1").slice(0, 1));
    this.bufferedAmount += data.length;
    this.#callbacks.push({ bytes: data.length, done });
  }

  /** The other end takes everything that is in the socket. */
  read(): void {
    for (const { bytes, done } of this.#callbacks.splice(0)) {
      this.bufferedAmount -= bytes;
      done();
    }
  }
}

const frames = (letter: string, bytes: number, count = 1): Buffer[] => Array.from({ length: count }, () => Buffer.alloc(bytes, letter));

test("control overtakes logs that wait, frame by frame, and each class keeps its order", () => {
  const socket = new StuckSocket();
  const queue = new SendQueue(socket, () => {});
  assert.equal(queue.push("logs", frames("l", 64 * 1024, 8)), true);
  const before = socket.sent.length;
  assert.ok(before < 8, "all logs went into the socket, where nothing can overtake them");
  queue.push("control", frames("c", 10));
  queue.push("control", frames("d", 10));
  while (socket.bufferedAmount > 0) socket.read();
  assert.equal(socket.sent.slice(before).join(""), `cd${"l".repeat(8 - before)}`);
});

test("a stuck socket is given a bounded number of bytes, and the queue refuses what is over its bound", () => {
  const socket = new StuckSocket();
  const queue = new SendQueue(socket, () => {});
  let taken = 0;
  while (queue.push("logs", frames("l", 64 * 1024))) taken += 64 * 1024;
  assert.ok(socket.bufferedAmount <= SOCKET_BYTES_MAX.logs + 64 * 1024);
  assert.ok(taken <= SOCKET_BYTES_MAX.logs + QUEUE_BYTES_MAX.logs + 64 * 1024, `${taken}`);
  assert.equal(queue.push("control", frames("c", 100)), true);
  assert.equal(socket.sent.at(-1), "c");
});

test("a message goes wholly or not at all, and room is told when frames have left", () => {
  const socket = new StuckSocket();
  let told = 0;
  const queue = new SendQueue(socket, () => (told += 1));
  while (queue.push("logs", frames("l", 64 * 1024)));
  const room = queue.room("logs");
  assert.equal(queue.push("logs", frames("x", 64 * 1024, 3)), false);
  assert.equal(queue.room("logs"), room);
  socket.read();
  assert.ok(told > 0);
  assert.ok(queue.room("logs") > room);
  assert.equal(socket.sent.includes("x"), false);
});

test("nothing is sent after close", () => {
  const socket = new StuckSocket();
  const queue = new SendQueue(socket, () => {});
  while (queue.push("logs", frames("l", 64 * 1024)));
  const sent = socket.sent.length;
  queue.close();
  socket.read();
  assert.equal(queue.push("control", frames("c", 10)), false);
  assert.equal(socket.sent.length, sent);
});
