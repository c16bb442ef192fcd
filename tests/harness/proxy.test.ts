import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { Proxy } from "./proxy.ts";

const TIMEOUT = { timeout: 120_000 };

/** Starts an echo server. */
async function echoServer(): Promise<net.Server & AsyncDisposable> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return Object.assign(server, {
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

const portOf = (server: net.Server): number => (server.address() as net.AddressInfo).port;

async function connected(proxy: Proxy): Promise<net.Socket> {
  const socket = net.connect(proxy.port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

/** Sends `bytes` and waits until as many are echoed. Returns the milliseconds. */
async function roundTrip(socket: net.Socket, bytes: number): Promise<number> {
  const start = performance.now();
  let left = bytes;
  const { promise, resolve } = Promise.withResolvers<void>();
  const onData = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left <= 0) resolve();
  };
  socket.on("data", onData);
  socket.write(Buffer.alloc(bytes, 7));
  await promise;
  socket.off("data", onData);
  return performance.now() - start;
}

test("the proxy forwards bytes in both directions, and delays, throttles and counts them", TIMEOUT, async () => {
  await using server = await echoServer();
  await using proxy = await Proxy.start(portOf(server));
  const socket = await connected(proxy);
  await roundTrip(socket, 1_000_000);
  assert.deepEqual(proxy.bytes, { up: 1_000_000, down: 1_000_000 });
  proxy.shape = { delay_ms: 100 };
  assert.ok((await roundTrip(socket, 10)) >= 200);
  proxy.shape = { bytes_per_second: { up: 100_000 } };
  // The last slice is forwarded as soon as the line is free, so the round trip does not include the transmission time of that slice.
  assert.ok((await roundTrip(socket, 50_000)) >= 480);
});

test("cut() ends connections with FIN after pending data, and reset() ends them with RST", TIMEOUT, async () => {
  await using server = await echoServer();
  await using proxy = await Proxy.start(portOf(server));
  const polite = await connected(proxy);
  await roundTrip(polite, 10);
  proxy.cut();
  await once(polite, "end");
  const harsh = await connected(proxy);
  await roundTrip(harsh, 10);
  const failed = once(harsh, "error");
  proxy.reset();
  assert.equal(((await failed)[0] as NodeJS.ErrnoException).code, "ECONNRESET");
});

test("a proxy in black hole mode reads all bytes and forwards none", TIMEOUT, async () => {
  await using server = await echoServer();
  await using proxy = await Proxy.start(portOf(server));
  const socket = await connected(proxy);
  await roundTrip(socket, 10);
  proxy.blackHole(true);
  let heard = 0;
  socket.on("data", ({ length }) => (heard += length));
  socket.write(Buffer.alloc(100_000));
  // While this proxy is busy, a connection through another proxy completes a round trip.
  await using clear = await Proxy.start(portOf(server));
  await roundTrip(await connected(clear), 1_000_000);
  assert.deepEqual([heard, proxy.bytes.up, proxy.open, socket.readyState], [0, 10, 1, "open"]);
  proxy.blackHole(false);
  await roundTrip(socket, 10);
});
