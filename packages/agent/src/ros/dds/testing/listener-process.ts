/** Runs the bridge with the DDS adapter, and prints what it finds and receives as lines of JSON. Ends with its standard input. */
import { createHash } from "node:crypto";
import { createSocket } from "node:dgram";
import { createInterface } from "node:readline";
import { systemClock } from "@roamfleet/clock";
import { pino } from "pino";
import { RosBridge } from "../../bridge.ts";
import { rosSettings } from "../../settings.ts";

const POLL_MS = 200;
const topics = JSON.parse(process.argv[2] ?? "[]") as string[];
const settings = rosSettings({ adapters: ["dds"] }, process.env as Record<string, string>);
const bridge = new RosBridge({ settings, clock: systemClock, log: pino({ level: "warn" }, process.stderr) });
const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value, readable)}\n`);

function readable(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (value instanceof Uint8Array) return { length: value.length, sha256: createHash("sha256").update(value).digest("hex") };
  if (ArrayBuffer.isView(value)) return Array.from(value as Float32Array);
  return value;
}

bridge.start();
for (const topic of topics)
  await bridge.subscribe(topic, {}, ({ type, at, message }) => say({ message: { topic, type, at: at.toISOString(), message } }));

let before = "";
let found = false;
const poll = systemClock.every(POLL_MS, async () => {
  const adapter = bridge.adapters.find(({ state }) => state === "connected");
  if (adapter === undefined && found) say({ lost: true });
  found = adapter !== undefined;
  const state = {
    ...(adapter === undefined ? {} : { found: { name: adapter.name, distro: adapter.distro } }),
    topics: (await bridge.topics()).map(({ name, type }) => ({ name, type })),
    nodes: await bridge.nodes(),
  };
  if (JSON.stringify(state) === before) return;
  before = JSON.stringify(state);
  say(state);
});

createInterface({ input: process.stdin })
  .on("line", (order) => {
    if (order === "noise") void noise();
  })
  .on("close", () => {
    poll.cancel();
    void bridge.stop();
  });

/** Sends invalid datagrams to the discovery port, as any host could: truncated, malformed, and with long ranges. */
async function noise(): Promise<void> {
  const socket = createSocket("udp4");
  const header = Buffer.concat([Buffer.from("RTPS"), Buffer.from([2, 1, 1, 0x10]), Buffer.alloc(12, 7)]);
  const submessage = (id: number, body: Buffer, length = body.length): Buffer =>
    Buffer.concat([Buffer.from([id, 1, length & 0xff, length >> 8]), body]);
  const endless = Buffer.alloc(28);
  endless.writeInt32LE(0x7fffffff, 20);
  const packets = [
    Buffer.alloc(3),
    Buffer.from("RTPS"),
    Buffer.alloc(100, 0xff),
    Buffer.concat([header, Buffer.from([0x15])]),
    Buffer.concat([header, submessage(0x15, Buffer.alloc(4), 500)]),
    Buffer.concat([header, submessage(0x09, Buffer.alloc(0))]),
    Buffer.concat([header, submessage(0x07, endless)]),
    Buffer.concat([header, submessage(0x08, endless)]),
    Buffer.concat([header, submessage(0x16, Buffer.alloc(40, 0xff))]),
  ];
  for (const packet of packets) await new Promise((resolve) => socket.send(packet, 7400, "127.0.0.1", resolve));
  socket.close();
}
