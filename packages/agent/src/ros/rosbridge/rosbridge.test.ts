import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import * as library from "roslib";
import { WebSocketServer } from "ws";
import type { RosAdapter, RosMessage } from "../adapter.ts";
import { adapterOptions, eventually } from "../testing/adapter-options.ts";
import { RosbridgeServer } from "../testing/rosbridge-server.ts";
import { findRosbridge } from "./rosbridge.ts";

const TIMEOUT_MS = 120_000;

/** The part of roslib that the tests use. Its type declarations cannot be resolved from a Node module. */
interface Ros {
  close(): void;
  once(event: "connection", listener: () => void): void;
  getTopics(answer: (told: { topics: string[]; types: string[] }) => void, failed: (error: string) => void): void;
}
interface RosTopicOfRoslib {
  subscribe(listener: (message: unknown) => void): void;
  unsubscribe(): void;
}
const { Ros, Topic } = library as unknown as {
  Ros: new (options: { url: string }) => Ros;
  Topic: new (options: { ros: Ros; name: string; messageType: string }) => RosTopicOfRoslib;
};

const STRING = {
  type: "std_msgs/msg/String",
  typedefs: [{ type: "std_msgs/String", fieldnames: ["data"], fieldtypes: ["string"], fieldarraylen: [-1] }],
};
/** A type as rosapi reports it. In `fieldarraylen`, 0 means an array of any length and -1 means not an array. */
const IMAGES = {
  type: "demo_msgs/msg/Images",
  typedefs: [
    { type: "demo_msgs/Images", fieldnames: ["name", "images"], fieldtypes: ["string", "demo_msgs/Image"], fieldarraylen: [-1, 0] },
    { type: "demo_msgs/Image", fieldnames: ["data", "parts"], fieldtypes: ["uint8", "int32"], fieldarraylen: [0, 0] },
  ],
};

async function connect(t: TestContext, url: string): Promise<RosAdapter> {
  const adapter = await findRosbridge(adapterOptions({ rosbridge_url: url }));
  assert.ok(adapter, "the server was not found");
  t.after(() => adapter.close());
  return adapter;
}

/** Connects roslib, the standard client of rosbridge. */
async function roslib(t: TestContext, url: string): Promise<Ros> {
  const ros = new Ros({ url });
  t.after(() => ros.close());
  await new Promise<void>((resolve) => ros.once("connection", resolve));
  return ros;
}

for (const prefix of ["/rosapi/", "rosapi/"])
  test(`lists the topics and nodes of a rosbridge server whose services start with ${prefix}`, { timeout: TIMEOUT_MS }, async (t) => {
    const server = await RosbridgeServer.start(t, prefix);
    server.topics.set("/chatter", STRING);
    server.nodes.push("/talker", "/rosbridge_websocket");
    const adapter = await connect(t, server.url);
    assert.deepEqual(await adapter.topics(), [{ name: "/chatter", type: "std_msgs/msg/String" }]);
    assert.deepEqual(await adapter.nodes(), ["/talker", "/rosbridge_websocket"]);
    assert.equal(adapter.distro, "humble");
    server.topics.clear();
    server.topics.set("/odd", { type: null as unknown as string, typedefs: [] }).set("/chatter", STRING);
    assert.deepEqual((await adapter.topics()).at(1), { name: "/chatter", type: "std_msgs/msg/String" });
  });

test("the rosbridge adapter returns the same topics and messages as roslib", { timeout: TIMEOUT_MS }, async (t) => {
  const server = await RosbridgeServer.start(t, "rosapi/");
  server.topics.set("/chatter", STRING);
  const ros = await roslib(t, server.url);
  const adapter = await connect(t, server.url);
  const told = await new Promise<{ topics: string[]; types: string[] }>((resolve, reject) => ros.getTopics(resolve, reject));
  assert.deepEqual(
    await adapter.topics(),
    told.topics.map((name, index) => ({ name, type: told.types[index] })),
  );
  const [expected, ours]: [unknown[], unknown[]] = [[], []];
  const topic = new Topic({ ros, name: "/chatter", messageType: STRING.type });
  topic.subscribe((message) => expected.push(message));
  const end = await adapter.subscribe("/chatter", ({ message }) => ours.push(message));
  await eventually(() => server.subscriptions.size === 2);
  for (let n = 0; n < 20; n += 1) server.publish("/chatter", { data: `hello ${n}, kühl` });
  await eventually(() => expected.length === 20 && ours.length === 20);
  assert.deepEqual(ours, expected);
  topic.unsubscribe();
  end();
  await eventually(() => server.subscriptions.size === 0);
});

test("decodes byte arrays in rosbridge messages at any depth", { timeout: TIMEOUT_MS }, async (t) => {
  const server = await RosbridgeServer.start(t, "/rosapi/");
  server.topics.set("/images", IMAGES);
  const adapter = await connect(t, server.url);
  const came: RosMessage[] = [];
  await adapter.subscribe("/images", (message) => came.push(message));
  await eventually(() => server.subscriptions.size === 1);
  const data = Buffer.from([0, 255, 128]).toString("base64");
  server.publish("/images", {
    name: "AAAA",
    images: [
      { data, parts: [1, 2] },
      { data: "", parts: [] },
    ],
  });
  await eventually(() => came.length === 1);
  assert.equal(came[0]!.type, "demo_msgs/msg/Images");
  const images = [
    { data: Uint8Array.of(0, 255, 128), parts: [1, 2] },
    { data: new Uint8Array(), parts: [] },
  ];
  assert.deepEqual(came[0]!.message, { name: "AAAA", images });
});

test("a rosbridge subscription waits for the topic's first publisher", { timeout: TIMEOUT_MS }, async (t) => {
  const server = await RosbridgeServer.start(t, "/rosapi/");
  const adapter = await connect(t, server.url);
  const came: unknown[] = [];
  await adapter.subscribe("/late", ({ message }) => came.push(message));
  assert.equal(server.subscriptions.size, 0);
  server.topics.set("/late", STRING);
  await eventually(() => server.subscriptions.size === 1);
  server.publish("/late", { data: "here" });
  await eventually(() => came, [{ data: "here" }]);
});

test("finds a rosbridge server without rosapi, but no silent or unreachable server", { timeout: TIMEOUT_MS }, async (t) => {
  const bare = await RosbridgeServer.start(t);
  const adapter = await connect(t, bare.url);
  assert.deepEqual([await adapter.topics(), await adapter.nodes()], [[], []]);
  const silent = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  t.after(() => silent.close());
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  assert.equal(await findRosbridge(adapterOptions({ rosbridge_url: `ws://127.0.0.1:${port}` })), undefined);
  assert.equal(await findRosbridge(adapterOptions({ rosbridge_url: "ws://127.0.0.1:1" })), undefined);
});

test("a rosbridge adapter reports the loss of its server and then returns no topics", { timeout: TIMEOUT_MS }, async (t) => {
  const server = await RosbridgeServer.start(t, "/rosapi/");
  const adapter = await connect(t, server.url);
  server.drop();
  assert.match(await adapter.gone, /closed \(1001\)/);
  assert.deepEqual(await adapter.topics(), []);
});

test("an unreadable rosbridge message closes the connection with the reason", { timeout: TIMEOUT_MS }, async (t) => {
  const server = await RosbridgeServer.start(t, "/rosapi/");
  server.topics.set("/chatter", STRING);
  const adapter = await connect(t, server.url);
  await adapter.subscribe("/chatter", () => {});
  await eventually(() => server.subscriptions.size === 1);
  for (const { socket } of server.subscriptions) socket.send('{"op":"publish","topic":{"toString":1}}');
  assert.match(await adapter.gone, /the server sent an unreadable message/);
});
