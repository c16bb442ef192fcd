import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, LINK_FEATURES, type StreamSource } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { WebSocket } from "ws";
import { startRig } from "./testing/rig.ts";

const LIMIT = { timeout: 120_000 };

interface Echoed {
  skipped?: number;
  topic: string;
  message: { number: number };
}

/** Starts a robot with topics that the test controls. `watch` opens a viewer. */
async function topicsRig(t: TestContext, serve: StreamSource = () => {}, features: string[] = [...LINK_FEATURES]) {
  const rig = await startRig();
  const sockets: WebSocket[] = [];
  t.after(async () => {
    for (const ws of sockets) ws.terminate();
    await rig[Symbol.asyncDispose]();
  });
  const opened: { channel: Channel; params: unknown }[] = [];
  const { server } = channelPair({
    topics: (channel, params) => {
      opened.push({ channel, params });
      void serve(channel, params);
    },
  });
  const hello = { ...rig.session.hello, features };
  rig.sessions.set(rig.robot_id, { ...rig.session, hello, openChannel: server.open.bind(server) });
  const path = `/api/robots/${rig.robot_id}/ros/topics/echo`;
  return {
    opened,
    watch: async (query = "") => {
      const ws = new WebSocket(`${rig.origin}${path}?token=${rig.token}${query}`);
      sockets.push(ws);
      const frames: string[] = [];
      ws.on("error", () => {});
      ws.on("message", (data: Buffer, binary) => {
        assert.equal(binary, false);
        frames.push(data.toString());
      });
      const closed = once(ws, "close").then(([code, reason]) => `${Number(code)} ${String(reason)}`);
      await once(ws, "open");
      return { ws, frames, closed, echoed: () => frames.map((frame) => JSON.parse(frame) as Echoed) };
    },
    /** Sends a message from the robot, as if the robot had skipped `skipped` messages before this message. */
    echo: async (number: number, { skipped = 0, padding = "" } = {}): Promise<void> => {
      const line = JSON.stringify({
        ...(skipped > 0 ? { skipped } : {}),
        topic: "/chatter",
        type: "a/msg/B",
        at: "…",
        message: { number, padding },
      });
      for (const { channel } of opened) await channel.write(dataMessage(Buffer.from(line)));
    },
    refuse: (query: string) => rig.refused(`${path}?token=${rig.token}${query}`),
  };
}

test("topic viewers with the same parameters share one channel, and later viewers get the last message", LIMIT, async (t) => {
  const { watch, opened, echo } = await topicsRig(t);
  const [a, b, other] = await Promise.all([
    watch("&topic=/chatter&rate=5"),
    watch("&topic=chatter&rate=5.0&full=false"),
    watch("&topic=/chatter&field=a.b&full=true"),
  ]);
  await until("two channels", () => opened.length === 2);
  assert.deepEqual(
    new Set(opened.map(({ params }) => JSON.stringify(params))),
    new Set(['{"op":"echo","topic":"/chatter","rate":5}', '{"op":"echo","topic":"/chatter","field":"a.b","full":true}']),
  );
  await echo(1);
  await until("one for each", () => [a, b, other].every(({ frames }) => frames.length === 1));
  assert.deepEqual(
    [new Set([...a.frames, ...b.frames])],
    [new Set(['{"topic":"/chatter","type":"a/msg/B","at":"…","message":{"number":1,"padding":""}}'])],
  );
  const late = await watch("&topic=/chatter&rate=5");
  await until("the last one", () => late.frames.length === 1);
  assert.deepEqual([late.frames, opened.length], [a.frames, 2]);
});

test("passes the topic type to the robot, and refuses that parameter for agents that would ignore it", LIMIT, async (t) => {
  const { watch, opened } = await topicsRig(t);
  await watch("&topic=/tf&type=tf2_msgs/TFMessage");
  await until("the channel", () => opened.length === 1);
  assert.deepEqual(opened[0]?.params, { op: "echo", topic: "/tf", type: "tf2_msgs/TFMessage" });
  const older = await topicsRig(t, undefined, ["credit", "channels"]);
  const { closed } = await older.watch("&topic=/tf&type=tf2_msgs/TFMessage");
  assert.equal(await closed, "4410 the robot's agent is too old to choose a topic by its type");
  assert.equal(older.opened.length, 0);
});

test("reports the messages that the robot and the server skipped for a slow viewer", LIMIT, async (t) => {
  const { watch, opened, echo } = await topicsRig(t);
  const [slow, quick] = [await watch("&topic=/chatter"), await watch("&topic=/chatter")];
  await until("the channel", () => opened.length === 1);
  await echo(1, { skipped: 7 });
  await until("the first", () => slow.frames.length === 1 && quick.frames.length === 1);
  assert.equal(slow.echoed()[0]!.skipped, undefined, "no message was skipped before the first");
  await echo(5, { skipped: 3 });
  await until("the second", () => slow.frames.length === 2);
  assert.equal(slow.echoed()[1]!.skipped, 3);
  slow.ws.pause();
  const padding = "x".repeat(200_000);
  // Enough messages to fill the kernel's buffers.
  let number = 5;
  for (; number < 105; number += 1) {
    await echo(number + 1, { padding });
    await until("the quick viewer", () => quick.frames.length === number - 5 + 3);
  }
  await echo(200, { skipped: 94 });
  slow.ws.resume();
  await until("the last", () => slow.echoed().at(-1)?.message.number === 200);
  const got = slow.echoed();
  assert.ok(got.length < 90, `${got.length} of 103 were sent`);
  for (const [i, { message, skipped = 0 }] of got.entries())
    if (i > 0) assert.equal(message.number - got[i - 1]!.message.number - 1, skipped);
  assert.deepEqual(
    quick.echoed().map(({ skipped = 0 }) => skipped),
    [0, 3, ...Array.from({ length: 100 }, () => 0), 94],
  );
});

test("sends the list of topics, and again after each change, if no topic is given", LIMIT, async (t) => {
  const { watch, opened } = await topicsRig(t);
  const [a, b] = [await watch(), await watch("&topic=")];
  await until("the channel", () => opened.length === 1);
  const [{ channel, params }] = opened as [(typeof opened)[number]];
  assert.deepEqual(params, { op: "list", follow: true });
  const topics = [{ name: "/chatter", type: "std_msgs/msg/String" }];
  for (const list of [topics, []]) await channel.write(controlMessage({ type: "topics", topics: list, adapter: "dds", distro: null }));
  await until("both lists", () => a.frames.length === 2 && b.frames.length === 2);
  assert.deepEqual(
    a.frames.map((frame) => JSON.parse(frame) as unknown),
    [topics, []].map((list) => ({ topics: list, adapter: "dds", distro: null })),
  );
});

test("closes topic viewers with the robot's reason when the robot refuses or ends the stream", LIMIT, async (t) => {
  const { watch, opened } = await topicsRig(t, (channel, params) => {
    if ((params as { topic?: string }).topic === "/none") channel.reset(4410, "ROS does not respond on this robot");
  });
  assert.equal(await (await watch("&topic=/none")).closed, "4410 ROS does not respond on this robot");
  const two = await watch("&topic=/chatter&field=x");
  await until("its channel", () => opened.length === 2);
  opened[1]!.channel.reset(4410, "a/msg/B has no field x (known fields: y)");
  assert.equal(await two.closed, "4410 a/msg/B has no field x (known fields: y)");
  const three = await watch("&topic=/chatter");
  await until("its channel", () => opened.length === 3);
  three.ws.close();
  assert.equal((await opened[2]!.channel.ended).code, 1000);
});

test("refuses invalid topic parameters before the upgrade", LIMIT, async (t) => {
  const { refuse, opened } = await topicsRig(t);
  for (const query of [
    "&topic=a%20b",
    "&topic=/",
    "&topic=/a%0A",
    `&topic=/${"a".repeat(300)}`,
    "&topic=/a&rate=0",
    "&topic=/a&rate=-1",
    "&topic=/a&rate=",
    "&topic=/a&rate=many",
    "&topic=/a&rate=1e9",
    "&topic=/a&full=maybe",
    "&topic=/a&type=",
    "&type=std_msgs/String",
    `&topic=/a&field=${"a".repeat(300)}`,
    "&rate=5",
    "&topic=/a&fast=1",
  ])
    assert.deepEqual([query, (await refuse(query)).status], [query, 400]);
  assert.equal(opened.length, 0);
});
