import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { buildWriter, listen, type Listener, startNamespace, whyNoDds } from "./testing/namespace.ts";

const LIMIT = { timeout: 180_000 };
const skip = whyNoDds() ?? false;
const CLOCKS_APART_MS_MAX = 120_000;
const IMAGE_BYTES = 300_000;

/** Resolves when `holds` returns true; rejects immediately when the listener has ended. */
async function heard(what: string, listener: Listener, holds: () => boolean): Promise<void> {
  const look = (): boolean => {
    assert.ok(listener.running, "the listener is gone");
    return holds();
  };
  const detail = (): string => JSON.stringify([listener.found, listener.topics, listener.nodes, listener.messages.length]);
  await until(what, look, { detail });
}

/** Creates a prefix like that of a ROS workspace, with only the definition of demo_msgs/msg/Reading. */
async function prefix(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-ament-"));
  t.after(() => rm(directory, { recursive: true }));
  const folder = join(directory, "share", "demo_msgs", "msg");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "Point.msg"), "float64 x\nfloat64 y\n");
  await writeFile(
    join(folder, "Reading.msg"),
    "# a comment\nint8 KIND=3\nbool fine\nchar level\nint64 small\nint64 large\nuint64 huge\nfloat64 nothing\nfloat32[3] ranges\nPoint[] points\nstring[] words\n",
  );
  return directory;
}

const textsOf = (listener: Listener, topic: string): string[] =>
  listener.of(topic).map(({ message }) => (message as { data: string }).data);
const numbersOf = (texts: string[]): number[] => texts.map((text) => Number(/\d+$/.exec(text)?.[0]));

/** During discovery, a writer may send the first message again after the second. */
function firstInOrder(numbers: number[]): number[] {
  const [first = 0, second = 0] = numbers;
  return first > second ? [second, first, ...numbers.slice(2)] : numbers;
}

/** Asserts that the numbers are consecutive, in order and without repetition. */
function assertGapless(numbers: number[]): void {
  const ordered = firstInOrder(numbers);
  assert.deepEqual(
    ordered,
    ordered.map((_, i) => ordered[0]! + i),
  );
}

/** Asserts that the numbers are in order and without repetition. Messages of a best-effort writer are lost while the reader is busy. */
function assertAscending(numbers: number[]): void {
  const ordered = firstInOrder(numbers);
  assert.deepEqual(
    ordered,
    [...new Set(ordered)].toSorted((a, b) => a - b),
  );
}

test("decodes reliable, best-effort, latched and large ROS 2 messages of a Cyclone DDS writer", { ...LIMIT, skip }, async (t) => {
  const [writer, namespace, ament] = [await buildWriter(t), await startNamespace(t), await prefix(t)];
  const publisher = namespace.spawn(writer, []);
  const topics = ["/chatter", "/hasty", "/twice", "/latched", "/image", "/image_hasty", "/reading", "/secret"];
  const listener = listen(namespace, topics, { ROS_DOMAIN_ID: "0", AMENT_PREFIX_PATH: ament, ROS_DISTRO: "humble" });
  const enough = { "/chatter": 40, "/hasty": 10, "/image": 5, "/image_hasty": 5, "/latched": 1, "/reading": 1, "/secret": 1 };
  const ofWriter = (name: string): string[] => textsOf(listener, "/twice").filter((text) => text.startsWith(name));
  const hasEnough = (): boolean =>
    Object.entries(enough).every(([topic, count]) => listener.of(topic).length >= count) &&
    ["first", "second"].every((name) => ofWriter(name).length > 10);
  await heard("enough of each", listener, () => hasEnough() && listener.nodes.length >= 2 && listener.topics.length >= 9);
  assert.deepEqual(listener.found, { name: "dds", distro: "humble" });
  assert.deepEqual(listener.nodes, ["/camera/driver", "/talker"]);
  assert.deepEqual(
    listener.topics.map(({ name, type }) => `${name} ${type}`),
    [
      "/chatter std_msgs/msg/String",
      "/hasty std_msgs/msg/String",
      "/image sensor_msgs/msg/CompressedImage",
      "/image_hasty sensor_msgs/msg/CompressedImage",
      "/latched std_msgs/msg/String",
      "/leaving std_msgs/msg/String",
      "/reading demo_msgs/msg/Reading",
      "/secret demo_msgs/msg/Secret",
      "/twice std_msgs/msg/String",
    ],
  );
  assertGapless(numbersOf(textsOf(listener, "/chatter")));
  assertAscending(numbersOf(textsOf(listener, "/hasty")));
  assert.match(textsOf(listener, "/chatter")[0]!, /^hello \d+$/);
  assert.ok(Math.abs(Date.parse(listener.of("/chatter").at(-1)!.at) - Date.now()) < CLOCKS_APART_MS_MAX);
  // Two writers of one process with separate counters: a reliable and a best-effort one.
  assertGapless(numbersOf(ofWriter("first")));
  assertAscending(numbersOf(ofWriter("second")));
  assert.deepEqual(
    listener.of("/latched").map(({ message }) => message),
    [{ data: "kept" }],
  );
  for (const topic of ["/image", "/image_hasty"]) {
    const [image] = listener.of(topic).map(({ message }) => message as { header: { stamp: { sec: number } } });
    const number = image!.header.stamp.sec;
    const data = Uint8Array.from({ length: IMAGE_BYTES }, (_, i) => (i * 7 + number) & 0xff);
    assert.deepEqual(image, {
      header: { stamp: { sec: number, nanosec: 5 }, frame_id: "camera" },
      format: "jpeg",
      data: { length: IMAGE_BYTES, sha256: createHash("sha256").update(data).digest("hex") },
    });
  }
  assert.deepEqual(listener.of("/reading")[0]!.message, {
    fine: true,
    level: 120,
    small: "-7n",
    large: "9007199254740993n",
    huge: "18446744073709551615n",
    nothing: "NaN",
    ranges: [0.5, "Infinity", "-Infinity"],
    points: [
      { x: 1.5, y: -2.5 },
      { x: 3, y: 4 },
    ],
    words: ["one", "zwei ä"],
  });
  const secret = listener.of("/secret")[0]!.message as { bytes: { length: number }; reason: string };
  assert.deepEqual(
    [secret.bytes.length, secret.reason],
    [12, `no definition of demo_msgs/msg/Secret: ${ament} do not contain it, and it is not a common type`],
  );
  publisher.stdin.write("go\n");
  await heard("one publisher is gone", listener, () => !listener.topics.some(({ name }) => name === "/leaving"));
});

test("survives invalid datagrams on the DDS discovery port and finds restarted publishers", { ...LIMIT, skip }, async (t) => {
  const [writer, namespace] = [await buildWriter(t), await startNamespace(t)];
  // Another agent in the same network, which publishes nothing.
  const other = listen(namespace, [], { ROS_DOMAIN_ID: "0" });
  const listener = listen(namespace, ["/chatter"], { ROS_DOMAIN_ID: "0" });
  const first = namespace.spawn(writer, []);
  await heard("the first messages", listener, () => listener.of("/chatter").length >= 5);
  listener.say("noise");
  other.say("noise");
  const count = listener.of("/chatter").length;
  await heard("more of them", listener, () => listener.of("/chatter").length >= count + 10);
  assertGapless(numbersOf(textsOf(listener, "/chatter")));
  first.stdin.end();
  await heard("its end", listener, () => listener.topics.length === 0 && listener.nodes.length === 0);
  const before = listener.of("/chatter").length;
  namespace.spawn(writer, []);
  await heard("messages of the next one", listener, () => listener.of("/chatter").length >= before + 5);
  // During discovery, a writer may send the first message again after the second.
  assertGapless(
    numbersOf(textsOf(listener, "/chatter"))
      .slice(before)
      .toSorted((a, b) => a - b),
  );
});
