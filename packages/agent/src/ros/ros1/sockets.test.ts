import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { TcpConnection } from "@foxglove/ros1";
import { systemClock } from "@roamfleet/clock";
import { eventually } from "../testing/adapter-options.ts";
import { ROS_MESSAGE_BYTES_MAX } from "../adapter.ts";
import { TcpRosSocket } from "./sockets.ts";

const TIMEOUT = { timeout: 120_000 };

const lengthOf = (length: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
};
const framed = (bytes: Uint8Array): Buffer => Buffer.concat([lengthOf(bytes.length), bytes]);
const HEADER = framed(TcpConnection.SerializeHeader(new Map([["type", "std_msgs/String"]])));

/** Starts a publisher that runs `serve` for each connection, and connects a socket that records what the publisher sends. */
async function publisher(t: TestContext, serve: (socket: Socket) => void) {
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(socket);
    socket.on("error", () => {});
    serve(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const came: string[] = [];
  const { port } = server.address() as AddressInfo;
  const socket = new TcpRosSocket({ host: "127.0.0.1", port }, systemClock, {
    header: (topic, header) => came.push(`header of ${topic}: ${header.get("type")}`),
    message: (topic, bytes) => came.push(`message of ${topic}: ${Buffer.from(bytes).toString()}`),
    oversized: (topic, bytes) => came.push(`oversized on ${topic}: ${bytes}`),
  });
  socket.on("error", () => came.push("error"));
  socket.on("close", () => came.push("closed"));
  const subscription = framed(TcpConnection.SerializeHeader(new Map([["topic", "/chatter"]])));
  t.after(async () => {
    await socket.close();
    for (const connection of connections) connection.destroy();
    server.close();
  });
  return {
    came,
    connect: async (): Promise<void> => {
      await socket.connect();
      await socket.write(subscription);
    },
  };
}

test("splits TCPROS messages, including empty messages, at any chunk boundary", TIMEOUT, async (t) => {
  const stream = Buffer.concat([HEADER, framed(Buffer.from("one")), framed(new Uint8Array()), framed(Buffer.from("three"))]);
  const { came, connect } = await publisher(t, (socket) => {
    socket.setNoDelay(true);
    const write = async (): Promise<void> => {
      for (const byte of stream) await new Promise((resolve) => socket.write(Buffer.of(byte), resolve));
    };
    socket.once("data", () => void write());
  });
  await connect();
  await eventually(() => came.length === 4);
  assert.deepEqual(came, [
    "header of /chatter: std_msgs/String",
    "message of /chatter: one",
    "message of /chatter: ",
    "message of /chatter: three",
  ]);
});

test("reports an overlong TCPROS message by its size and reads the next message", TIMEOUT, async (t) => {
  const bytes = ROS_MESSAGE_BYTES_MAX + 1;
  const { came, connect } = await publisher(t, (socket) => {
    socket.once("data", () => {
      socket.write(Buffer.concat([HEADER, lengthOf(bytes)]));
      socket.write(Buffer.alloc(bytes));
      socket.write(framed(Buffer.from("next")));
    });
  });
  await connect();
  await eventually(() => came.length === 3);
  assert.deepEqual(came.slice(1), [`oversized on /chatter: ${bytes}`, "message of /chatter: next"]);
});

test("reads the first TCPROS frame after a reconnect as a header", TIMEOUT, async (t) => {
  let connections = 0;
  const { came, connect } = await publisher(t, (socket) => {
    connections += 1;
    const said = framed(Buffer.from(`hello ${connections}`));
    socket.once("data", () => socket.write(Buffer.concat([HEADER, said.subarray(0, connections === 1 ? 6 : said.length)])));
    if (connections === 1) socket.once("data", () => setImmediate(() => socket.end()));
  });
  await connect();
  await eventually(() => came.includes("closed"));
  await connect();
  await eventually(() => came.some((one) => one.endsWith("hello 2")));
  const header = "header of /chatter: std_msgs/String";
  assert.deepEqual(came, [header, "closed", header, "message of /chatter: hello 2"]);
});

test("fails for a TCPROS peer that uses another protocol or is unreachable", TIMEOUT, async (t) => {
  const { came, connect } = await publisher(t, (socket) => void socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await connect();
  await eventually(() => came, ["error", "closed"]);
  const reader = { header: () => {}, message: () => {}, oversized: () => {} };
  const unreachable = new TcpRosSocket({ host: "127.0.0.1", port: 1 }, systemClock, reader);
  unreachable.on("error", () => {});
  await assert.rejects(unreachable.connect(), /ECONNREFUSED/);
});
