import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { ROBOT_CONFIG_DEFAULT } from "../../config-file/robot-config.ts";
import { startLoopbackServer } from "../../testing/loopback-server.ts";
import { forwardSource } from "./forward.ts";

const FORWARD_ALLOW_DEFAULT = ROBOT_CONFIG_DEFAULT.forward.allow;

const LIMIT = { timeout: 120_000 };
const MIB = 1024 * 1024;

const tunnels = (allow = FORWARD_ALLOW_DEFAULT) => channelPair({ forward: forwardSource({ allow, clock: systemClock }) });

/** Reads until the end. Returns the bytes, and whether the robot sent `eof`. */
async function readAll(channel: Channel): Promise<{ bytes: Buffer; eof: boolean }> {
  const parts: Uint8Array[] = [];
  let eof = false;
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data !== undefined) {
      assert.equal(eof, false, "bytes after eof");
      parts.push(data);
    } else eof ||= control.type === "eof";
  }
  return { bytes: Buffer.concat(parts), eof };
}

const EOF = controlMessage({ type: "eof" });

test("a tunnel carries bytes both ways and ends normally when both sides finish", LIMIT, async () => {
  await using echo = await startLoopbackServer((socket) => socket.pipe(socket));
  const pair = tunnels();
  const channel = await pair.server.open("forward", "topics", { port: echo.port });
  await channel.write(dataMessage(Buffer.from("hello ")));
  await channel.write(dataMessage(Buffer.from("robot")));
  await channel.write(EOF);
  const { bytes, eof } = await readAll(channel);
  assert.deepEqual([String(bytes), eof, await channel.ended], ["hello robot", true, { code: 1000, reason: "" }]);
  await until("the channel is gone at the robot", () => pair.robot.size === 0);
});

test("a half-closed tunnel still carries data in the other direction", LIMIT, async () => {
  const heard: Buffer[] = [];
  // Sends data and FIN immediately, then reads.
  await using speaker = await startLoopbackServer((socket) => {
    socket.end("all I say");
    socket.on("data", (bytes) => heard.push(bytes));
  });
  // Reads until FIN, then answers.
  await using listener = await startLoopbackServer((socket) => {
    let count = 0;
    socket.on("data", (bytes) => (count += bytes.length));
    socket.on("end", () => setImmediate(() => socket.end(`${count} bytes`)));
  });
  const pair = tunnels();
  const told = await pair.server.open("forward", "topics", { port: speaker.port });
  const messages = [await told.read(), await told.read(), await told.read()].map((message) => readMessage(message!));
  assert.deepEqual(
    [messages[0]?.control, String(messages[1]?.data), messages[2]?.control],
    [{ type: "open" }, "all I say", { type: "eof" }],
  );
  await told.write(dataMessage(Buffer.from("still here")));
  await told.write(EOF);
  assert.deepEqual(await told.ended, { code: 1000, reason: "" });
  await until("the service to hear it", () => String(Buffer.concat(heard)) === "still here");

  const asked = await pair.server.open("forward", "topics", { port: listener.port });
  for (let i = 0; i < 10; i += 1) await asked.write(dataMessage(Buffer.alloc(1000)));
  await asked.write(EOF);
  assert.equal(String((await readAll(asked)).bytes), "10000 bytes");
});

test("a tunnel carries 100 MB unchanged in each direction", { timeout: 120_000 }, async () => {
  const size = 100 * MIB;
  const piece = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("latin1");
  const block = Buffer.from(piece.repeat(256), "latin1");
  let received = 0;
  let wrong = 0;
  const check = (bytes: Uint8Array): void => {
    for (let i = 0; i < bytes.length; i += 997) if (bytes[i] !== ((received + i) & 255)) wrong += 1;
    received += bytes.length;
  };
  await using source = await startLoopbackServer((socket) => {
    let sent = 0;
    const more = (): void => {
      while (sent < size) {
        sent += block.length;
        if (!socket.write(block)) return void socket.once("drain", more);
      }
      socket.end();
    };
    more();
  });
  await using sink = await startLoopbackServer((socket) => socket.on("data", check).on("end", () => socket.end()));
  const pair = tunnels();
  const down = await pair.server.open("forward", "topics", { port: source.port });
  await down.write(EOF);
  for await (const message of down) check(readMessage(message).data ?? new Uint8Array(0));
  assert.deepEqual([received, wrong, await down.ended], [size, 0, { code: 1000, reason: "" }]);

  received = 0;
  const up = await pair.server.open("forward", "topics", { port: sink.port });
  for (let sent = 0; sent < size; sent += 32_768) await up.write(dataMessage(block.subarray(0, 32_768)));
  await up.write(EOF);
  assert.deepEqual([(await readAll(up)).eof, received, wrong], [true, size, 0]);
});

test("a tunnel forwards a connection reset to the other side", LIMIT, async () => {
  const ends: string[] = [];
  await using quiet = await startLoopbackServer((socket) => {
    socket.on("data", () => {});
    socket.on("error", ({ code }: NodeJS.ErrnoException) => ends.push(code ?? ""));
    socket.on("end", () => ends.push("end"));
  });
  const pair = tunnels();
  for (const leave of [
    (channel: Channel) => channel.reset(1000, "the viewer left"),
    (channel: Channel) => void channel.write(controlMessage({ type: "reset" })),
    () => pair.cut(),
  ]) {
    const before = ends.length;
    const channel = await pair.server.open("forward", "topics", { port: quiet.port });
    await until("the service has the connection", () => quiet.sockets.size === 1);
    leave(channel);
    await until("the service to receive it", () => ends.length > before);
  }
  assert.deepEqual(ends, ["ECONNRESET", "ECONNRESET", "ECONNRESET"]);

  await using rude = await startLoopbackServer((socket) => socket.once("data", () => socket.resetAndDestroy()));
  const channel = await tunnels().server.open("forward", "topics", { port: rude.port });
  await channel.write(dataMessage(Buffer.from("hello")));
  assert.deepEqual(await channel.ended, { code: 4410, reason: `127.0.0.1:${rude.port} reset the connection` });
});

test("a tunnel to an unreachable, forbidden or invalid target fails with the reason", LIMIT, async () => {
  const closed = await startLoopbackServer(() => {});
  const { port } = closed;
  await closed[Symbol.asyncDispose]();
  const pair = tunnels();
  const refusal = async (params: unknown): Promise<string> => {
    const end = await pair.server.open("forward", "topics", params).then(
      (channel) => channel.ended,
      (error: Error & { code: number }) => ({ code: error.code, reason: error.message }),
    );
    assert.equal(end.code, 4410);
    return end.reason;
  };
  assert.equal(await refusal({ port }), `127.0.0.1:${port} refused the connection: nothing listens there`);
  assert.match(await refusal({ host: "10.1.2.3", port }), /does not allow 10\.1\.2\.3:\d+: forward\.allow/);
  assert.match(await refusal({ host: "fd00::1", port }), /does not allow \[fd00::1\]:\d+/);
  assert.match(await refusal({ host: "no-such-name.invalid", port }), /cannot resolve no-such-name\.invalid/);
  for (const params of [
    null,
    7,
    {},
    { port: 0 },
    { port: "22" },
    { port: 22, host: "" },
    { port: 22, host: "a\nb" },
    { port: 22, host: "x".repeat(300) },
  ])
    assert.match(await refusal(params), /needs a port/, JSON.stringify(params));
});

test("a tunnel to a service that does not answer times out", LIMIT, async () => {
  await using slow = await startLoopbackServer(() => {});
  // The timeout fires before a connection can be made.
  const clock = { setTimer: (_ms: number, work: () => unknown) => (queueMicrotask(() => work()), { cancel: () => {} }) };
  const pair = channelPair({ forward: forwardSource({ allow: FORWARD_ALLOW_DEFAULT, clock }) });
  const channel = await pair.server.open("forward", "topics", { port: slow.port });
  assert.deepEqual(await channel.ended, { code: 4410, reason: `127.0.0.1:${slow.port} does not answer` });
});

test("twenty concurrent tunnels do not mix their bytes", LIMIT, async () => {
  await using echo = await startLoopbackServer((socket) => socket.pipe(socket));
  const pair = tunnels();
  await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const channel = await pair.server.open("forward", "topics", { port: echo.port });
      const answer = readAll(channel);
      for (let n = 0; n < 20; n += 1) await channel.write(dataMessage(Buffer.alloc(10_000, i)));
      await channel.write(EOF);
      const { bytes } = await answer;
      assert.deepEqual([bytes.length, bytes.every((byte) => byte === i)], [200_000, true]);
    }),
  );
});

test("an endpoint that does not read blocks only its own tunnel, and little data is buffered", LIMIT, async () => {
  let sent = 0;
  await using endless = await startLoopbackServer((socket) => {
    const more = (): void => {
      while (socket.write(Buffer.alloc(64 * 1024), () => (sent += 64 * 1024)));
      socket.once("drain", more);
    };
    more();
  });
  await using deaf = await startLoopbackServer((socket) => socket.pause());
  await using echo = await startLoopbackServer((socket) => socket.pipe(socket));
  const pair = tunnels();
  const unread = await pair.server.open("forward", "topics", { port: endless.port });
  const unheard = await pair.server.open("forward", "topics", { port: deaf.port });
  let written = 0;
  void (async () => {
    while (await unheard.write(dataMessage(Buffer.alloc(32 * 1024)))) written += 32 * 1024;
  })();
  const other = await pair.server.open("forward", "topics", { port: echo.port });
  await other.read();
  let seen = [-1, -1];
  for (let still = 0; still < 20;) {
    await other.write(dataMessage(Buffer.from("ping")));
    assert.equal(String(readMessage((await other.read())!).data), "ping");
    still = seen[0] === sent && seen[1] === written ? still + 1 : 0;
    seen = [sent, written];
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  // The kernel's loopback buffers accept several MB. The agent's buffers are far smaller than 1 MB.
  assert.ok(sent < 16 * MIB, `${sent} bytes were taken from the service`);
  assert.ok(written < 16 * MIB, `${written} bytes were taken for the service`);
  unread.reset(1000, "");
  unheard.reset(1000, "");
});
