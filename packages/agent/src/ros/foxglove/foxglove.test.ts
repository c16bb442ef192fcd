import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { parse } from "@foxglove/rosmsg";
import { MessageWriter as Ros1Writer } from "@foxglove/rosmsg-serialization";
import { MessageWriter as CdrWriter } from "@foxglove/rosmsg2-serialization";
import { FoxgloveServer, type IWebSocket } from "@foxglove/ws-protocol";
import protobuf from "protobufjs";
import descriptor from "protobufjs/ext/descriptor/index.js";
import { type WebSocket, WebSocketServer } from "ws";
import { type RosAdapter, type RosMessage, UndecodedMessage } from "../adapter.ts";
import { adapterOptions, eventually } from "../testing/adapter-options.ts";
import { findFoxglove } from "./foxglove.ts";

const TIMEOUT_MS = 120_000;

const POINT =
  "float64 x\nint64 count\nstring name\nuint8[] data\nstd_msgs/Header header\n===\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n";
/** A definition in the format of the ROS 2 generators. */
const POINT_IDL = `================================================================================
IDL: demo_msgs/msg/Pose
module demo_msgs {
  module msg {
    struct Pose {
      double x;
      sequence<float> ranges;
      string name;
    };
  };
};
`;
/**
 * A std_msgs/String of `hü`, built by hand, since the writer counts characters where CDR counts bytes: little endian, 4 bytes including the
 * terminator.
 */
const CDR_HU = Uint8Array.of(0, 1, 0, 0, 4, 0, 0, 0, 0x68, 0xc3, 0xbc, 0);

/** Accepts one subprotocol and refuses clients without it, like foxglove_bridge. */
async function listen(t: TestContext, accepted: string, serve: (socket: WebSocket) => void): Promise<string> {
  const server = new WebSocketServer({
    host: "127.0.0.1",
    port: 0,
    handleProtocols: (offered) => (offered.has(accepted) ? accepted : false),
    verifyClient: ({ req }: { req: { headers: Record<string, unknown> } }) =>
      String(req.headers["sec-websocket-protocol"]).split(/, */).includes(accepted),
  });
  server.on("connection", serve);
  t.after(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  await once(server, "listening");
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The server's end of one connection, with the framing of foxglove.sdk.v1 (identical in the previous version). */
class Served {
  readonly socket: WebSocket;
  readonly asked: Record<string, unknown>[] = [];

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer) => this.asked.push(JSON.parse(data.toString()) as Record<string, unknown>));
    const metadata = { ROS_DISTRO: "jazzy" };
    this.say({ op: "serverInfo", name: "foxglove_bridge", capabilities: ["connectionGraph"], supportedEncodings: ["cdr"], metadata });
  }

  say(value: unknown): void {
    this.socket.send(JSON.stringify(value));
  }

  advertise(id: number, topic: string, rest: { encoding: string; schemaName: string; schema: string; schemaEncoding?: string }): void {
    this.say({ op: "advertise", channels: [{ id, topic, ...rest }] });
  }

  /** Sends one message of a channel with the subscription ID that the client chose. */
  publish(channel: number, bytes: Uint8Array, logged_ns = 1_900_000_000_123_456_789n): void {
    const subscription = this.subscriptions().find(({ channelId }) => channelId === channel);
    assert.ok(subscription, "there is no subscription");
    const head = Buffer.alloc(13);
    head[0] = 1;
    head.writeUInt32LE(subscription.id, 1);
    head.writeBigUInt64LE(logged_ns, 5);
    this.socket.send(Buffer.concat([head, bytes]));
  }

  subscriptions(): { id: number; channelId: number }[] {
    return this.asked
      .filter(({ op }) => op === "subscribe")
      .flatMap(({ subscriptions }) => subscriptions as { id: number; channelId: number }[]);
  }
}

async function connect(t: TestContext, url: string): Promise<RosAdapter> {
  const adapter = await findFoxglove(adapterOptions({ foxglove_url: url }));
  assert.ok(adapter, "the server was not found");
  t.after(() => adapter.close());
  return adapter;
}

async function startSdk(t: TestContext): Promise<{ adapter: RosAdapter; served: Served }> {
  const clients: Served[] = [];
  const url = await listen(t, "foxglove.sdk.v1", (socket) => clients.push(new Served(socket)));
  const adapter = await connect(t, url);
  return { adapter, served: clients[0]! };
}

test("lists the topics, nodes and distribution of a foxglove.sdk.v1 server", { timeout: TIMEOUT_MS }, async (t) => {
  const { adapter, served } = await startSdk(t);
  assert.equal(adapter.distro, "jazzy");
  served.advertise(1, "/chatter", {
    encoding: "cdr",
    schemaName: "std_msgs/msg/String",
    schema: "string data",
    schemaEncoding: "ros2msg",
  });
  await eventually(() => served.asked.some(({ op }) => op === "subscribeConnectionGraph"));
  served.say({
    op: "connectionGraphUpdate",
    publishedTopics: [{ name: "/chatter", publisherIds: ["/talker"] }],
    subscribedTopics: [{ name: "/chatter", subscriberIds: ["/listener", "/talker"] }, null],
    advertisedServices: [],
    removedTopics: [],
    removedServices: [],
  });
  await eventually(() => adapter.nodes(), ["/talker", "/listener"]);
  assert.deepEqual(adapter.topics(), [{ name: "/chatter", type: "std_msgs/msg/String" }]);
});

test("decodes CDR messages with ros2msg and ros2idl schemas and leaves unknown encodings undecoded", { timeout: TIMEOUT_MS }, async (t) => {
  const { adapter, served } = await startSdk(t);
  const came: RosMessage[] = [];
  const take = (message: RosMessage): void => void came.push(message);
  served.advertise(1, "/chatter", { encoding: "cdr", schemaName: "std_msgs/msg/String", schema: "string data\n" });
  served.advertise(2, "/point", { encoding: "cdr", schemaName: "demo_msgs/msg/Point", schema: POINT, schemaEncoding: "ros2msg" });
  served.advertise(3, "/pose", { encoding: "cdr", schemaName: "demo_msgs/msg/Pose", schema: POINT_IDL, schemaEncoding: "ros2idl" });
  served.advertise(4, "/other", { encoding: "flatbuffer", schemaName: "Thing", schema: "", schemaEncoding: "flatbuffer" });
  await eventually(async () => (await adapter.topics()).length === 4);
  for (const topic of ["/chatter", "/point", "/pose", "/other"]) await adapter.subscribe(topic, take);
  await eventually(() => served.subscriptions().length === 4);
  const header = { stamp: { sec: 7, nanosec: 8 }, frame_id: "map" };
  const point = { x: 1.5, count: 9_007_199_254_740_993n, name: "cool", data: Uint8Array.of(1, 2, 255), header };
  served.publish(1, CDR_HU);
  served.publish(2, new CdrWriter(parse(POINT, { ros2: true })).writeMessage(point));
  const pose = { x: -2, ranges: Float32Array.of(0.5, Number.POSITIVE_INFINITY), name: "p" };
  const pose_definition = parse("float64 x\nfloat32[] ranges\nstring name", { ros2: true });
  served.publish(3, new CdrWriter(pose_definition).writeMessage(pose));
  served.publish(4, Uint8Array.of(8, 1));
  await eventually(() => came.length === 4);
  assert.equal(came[0]!.at.toISOString(), "2030-03-17T17:46:40.123Z");
  assert.deepEqual(
    came.slice(0, 3).map(({ type, message }) => [type, message]),
    [
      ["std_msgs/msg/String", { data: "hü" }],
      ["demo_msgs/msg/Point", point],
      ["demo_msgs/msg/Pose", pose],
    ],
  );
  const undecoded = came[3]!.message;
  assert.ok(undecoded instanceof UndecodedMessage);
  assert.deepEqual([...undecoded.bytes], [8, 1]);
  assert.match(undecoded.reason, /flatbuffer/);
});

test("a Foxglove subscription waits for its topic and survives the removal of its channel", { timeout: TIMEOUT_MS }, async (t) => {
  const { adapter, served } = await startSdk(t);
  const came: unknown[] = [];
  const end = await adapter.subscribe("/late", ({ message }) => came.push(message));
  const channel = { encoding: "json", schemaName: "demo", schema: "" };
  served.advertise(1, "/late", channel);
  await eventually(() => served.subscriptions().length === 1);
  served.publish(1, Buffer.from('{"n":1}'));
  await eventually(() => came, [{ n: 1 }]);
  served.say({ op: "unadvertise", channelIds: [1] });
  served.advertise(2, "/late", channel);
  await eventually(() => served.subscriptions().length === 2);
  served.publish(2, Buffer.from("{broken"));
  await eventually(() => came.length === 2);
  assert.ok(came[1] instanceof UndecodedMessage);
  end();
  await eventually(() => served.asked.some(({ op, subscriptionIds }) => op === "unsubscribe" && Array.isArray(subscriptionIds)));
});

test("reads messages from a server that supports only foxglove.websocket.v1", { timeout: TIMEOUT_MS }, async (t) => {
  const server = new FoxgloveServer({ name: "foxglove_bridge", metadata: { ROS_DISTRO: "noetic" } });
  const definition = parse("string data\ntime stamp");
  const channel = server.addChannel({
    topic: "/chatter",
    encoding: "ros1",
    schemaName: "std_msgs/String",
    schema: "string data\ntime stamp",
    schemaEncoding: "ros1msg",
  });
  const url = await listen(t, "foxglove.websocket.v1", (socket) => server.handleConnection(socket as unknown as IWebSocket, "client"));
  const adapter = await connect(t, url);
  assert.equal(adapter.distro, "noetic");
  await eventually(() => adapter.topics(), [{ name: "/chatter", type: "std_msgs/String" }]);
  const subscribed = new Promise<void>((resolve) => server.on("subscribe", () => resolve()));
  const came: RosMessage[] = [];
  await adapter.subscribe("/chatter", (message) => came.push(message));
  await subscribed;
  const said = { data: "hello", stamp: { sec: 1, nsec: 2 } };
  const bytes = new Ros1Writer(definition).writeMessage(said);
  server.sendMessage(channel, 5_000_000_000n, bytes);
  await eventually(() => came.length === 1);
  assert.deepEqual([came[0]!.type, came[0]!.at.getTime(), { ...(came[0]!.message as object) }], ["std_msgs/String", 5_000, said]);
});

test("finds no Foxglove adapter if the server is missing, silent or uses another protocol", { timeout: TIMEOUT_MS }, async (t) => {
  assert.equal(await findFoxglove(adapterOptions({ foxglove_url: "ws://127.0.0.1:1" })), undefined);
  const other = await listen(t, "another.v1", () => {});
  assert.equal(await findFoxglove(adapterOptions({ foxglove_url: other })), undefined);
  const silent = await listen(t, "foxglove.sdk.v1", () => {});
  assert.equal(await findFoxglove(adapterOptions({ foxglove_url: silent })), undefined);
});

test("a Foxglove adapter reports the close code when its server disconnects", { timeout: TIMEOUT_MS }, async (t) => {
  const { adapter, served } = await startSdk(t);
  served.socket.close(1001);
  assert.match(await adapter.gone, /closed \(1001\)/);
  const { adapter: other } = await startSdk(t);
  await other.close();
  await other.gone;
});

const PROTO = `syntax = "proto3";
package demo;
enum Mode { IDLE = 0; RUN = 1; }
message Point { double x = 1; int64 count = 2; }
message Pose { Point at = 1; repeated float ranges = 2; string name = 3; bytes data = 4; Mode mode = 5; }`;

test("decodes protobuf messages only if the channel's schema is valid", { timeout: TIMEOUT_MS }, async (t) => {
  const { adapter, served } = await startSdk(t);
  const came: RosMessage[] = [];
  const { root } = protobuf.parse(PROTO);
  root.resolveAll();
  const set = (root as unknown as { toDescriptor(edition: string): protobuf.Message }).toDescriptor("proto3");
  const schema = Buffer.from(descriptor.FileDescriptorSet.encode(set).finish()).toString("base64");
  served.advertise(1, "/pose", { encoding: "protobuf", schemaName: "demo.Pose", schema, schemaEncoding: "protobuf" });
  served.advertise(2, "/broken", { encoding: "protobuf", schemaName: "demo.None", schema, schemaEncoding: "protobuf" });
  await eventually(async () => (await adapter.topics()).length === 2);
  for (const topic of ["/pose", "/broken"]) await adapter.subscribe(topic, (message) => came.push(message));
  await eventually(() => served.subscriptions().length === 2);
  const type = root.lookupType("demo.Pose");
  const pose = { at: { x: 1.5, count: "9007199254740993" }, ranges: [0.5, 2], name: "hü", data: Buffer.from([1, 2]), mode: "RUN" };
  const bytes = type.encode(type.fromObject(pose)).finish();
  served.publish(1, bytes);
  await eventually(() => came.length === 1);
  assert.deepEqual([came[0]!.type, came[0]!.message], ["demo.Pose", pose]);
  served.publish(2, bytes);
  await eventually(() => came.length === 2);
  assert.ok(came[1]!.message instanceof UndecodedMessage);
});
