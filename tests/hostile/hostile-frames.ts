import { CONTROL_CHANNEL, encodeFrame, FrameType, LOG_CHANNEL } from "@roamfleet/protocol/link";
import { wireFrame } from "./raw-robot.ts";

/** One way to attack a link. Its frames are written in blocks, until the link is closed or the number of frames is reached. */
export interface Attack {
  name: string;
  /** Returns the next frames, encoded as a client sends them. */
  next: () => { bytes: Buffer; frames: number };
}

const BLOCK_BYTES = 256 * 1024;
const BLOCK_FRAMES_MAX = 4_096;
/** All known types, and three unknown ones. */
const TYPES = [...Object.values(FrameType), 0, 9, 255];
/** Values of the flags: none, each flag, all known flags, and all bits. */
const FLAGS = [0, 1, 2, 4, 7, 255];
/**
 * Channel numbers: of control messages, of logs, of a channel opened by the server, of one opened by a robot, an unused number, and the
 * largest.
 */
const CHANNELS = [CONTROL_CHANNEL, LOG_CHANNEL, 2, 3, 100, 0xffff_ffff];
const SIZES = [0, 1, 4, 125, 64 * 1024];
const FILLS = ["zeros", "json", "nested"] as const;

function payloadOf(size: number, fill: (typeof FILLS)[number]): Buffer {
  if (fill === "zeros") return Buffer.alloc(size);
  if (fill === "nested") return Buffer.alloc(size, "[");
  return Buffer.from(JSON.stringify({ kind: "echo", class: "topics", params: "x".repeat(size) }).slice(0, size));
}

/** Repeats one frame. */
function repeated(name: string, frame: Uint8Array): Attack {
  const wire = wireFrame(frame);
  const frames = Math.max(1, Math.min(BLOCK_FRAMES_MAX, Math.floor(BLOCK_BYTES / wire.length)));
  const block = { bytes: Buffer.concat(Array.from({ length: frames }, () => wire)), frames };
  return { name, next: () => block };
}

/** Returns attacks with frames of every type, flag, channel, size and content: one kind of frame each, repeated. */
export function frameAttacks(): Attack[] {
  const attacks: Attack[] = [];
  for (const type of TYPES)
    for (const flags of FLAGS)
      for (const channel of CHANNELS)
        for (const size of SIZES)
          for (const fill of size < 4 ? FILLS.slice(0, 1) : FILLS) {
            const frame = encodeFrame(type as FrameType, channel, payloadOf(size, fill), flags);
            attacks.push(repeated(`type ${type} flags ${flags} channel ${channel} ${size} bytes of ${fill}`, frame));
          }
  return attacks;
}

/** Returns attacks with WebSocket messages that are not link frames, and with WebSocket control frames. */
export function webSocketAttacks(): Attack[] {
  const raw = (name: string, bytes: number[]): Attack => {
    const one = Buffer.from(bytes);
    const block = { bytes: Buffer.concat(Array.from({ length: BLOCK_FRAMES_MAX }, () => one)), frames: BLOCK_FRAMES_MAX };
    return { name, next: () => block };
  };
  const MASK = [0, 0, 0, 0];
  return [
    raw("an empty message", [0x82, 0x80, ...MASK]),
    raw("a text message", [0x81, 0x81, ...MASK, 0x7b]),
    raw("a ping", [0x89, 0x80, ...MASK]),
    raw("a pong", [0x8a, 0x80, ...MASK]),
    raw("an empty fragment of an incomplete message", [0x02, 0x80, ...MASK]),
    raw("a fragment of no message", [0x00, 0x81, ...MASK, 0]),
    raw("a close with a reason", [0x88, 0x83, ...MASK, 0x03, 0xe8, 0x78]),
    raw("a frame without a mask", [0x82, 0x01, 0]),
    raw("a frame of 2^53 bytes", [0x82, 0xff, 0, 0x20, 0, 0, 0, 0, 0, 0, ...MASK]),
  ];
}

const AT = "2030-01-01T00:00:00.000Z";

/** Returns attacks with valid messages of a robot. The messages are as large and as frequent as allowed. */
export function messageAttacks(): Attack[] {
  let seq = 0;
  const messages = (name: string, channel: number, make: () => unknown): Attack => ({
    name,
    next: () => {
      const wires: Buffer[] = [];
      let bytes = 0;
      while (bytes < BLOCK_BYTES && wires.length < BLOCK_FRAMES_MAX) {
        const text = Buffer.from(JSON.stringify(make()));
        for (let at = 0; at < text.length; at += 60_000)
          wires.push(wireFrame(encodeFrame(FrameType.DATA, channel, text.subarray(at, at + 60_000), at + 60_000 < text.length ? 1 : 0)));
        bytes += text.length;
      }
      return { bytes: Buffer.concat(wires), frames: wires.length };
    },
  });
  const report = (body: () => unknown) => () => ({ type: "report", seq: (seq += 1), at: AT, body: body() });
  const record = (message: string, fields: unknown = {}) => ({ seq: (seq += 1), at: AT, level: "info", source: "s", message, fields });
  const health = (more: object) => ({
    type: "health",
    snapshot: {
      at: AT,
      boot_id: "b",
      uptime_seconds: 1,
      cpu: { percent: 1, load_1m: 1, cores: 1, temperature_celsius: null },
      memory: { used_bytes: 1, total_bytes: 1 },
      disks: [],
      network: [],
      battery: null,
      workloads: [],
      ros: null,
      checks: [],
      metrics: {},
      status: "ok",
      ...more,
    },
  });
  const names = (count: number, length: number): string[] => Array.from({ length: count }, (_, i) => `${i}-`.padEnd(length, "x"));
  const topics = { distro: null, adapter: "x", nodes: names(1_000, 60), topics: names(5_000, 60) };
  const metrics = Object.fromEntries(names(1_000, 60).map((name) => [name, 1]));
  const checks = names(256, 60).map((name) => ({ name, status: "ok", message: "x".repeat(200) }));
  return [
    messages("records, one a flush", LOG_CHANNEL, () => ({ type: "logs", records: [record("x")] })),
    messages("records, a thousand a flush", LOG_CHANNEL, () => ({
      type: "logs",
      records: Array.from({ length: 1_000 }, () => record("x")),
    })),
    messages("records with many fields", LOG_CHANNEL, () => ({ type: "logs", records: [record("x", metrics)] })),
    messages(
      "unknown apps",
      CONTROL_CHANNEL,
      report(() => ({
        kind: "app",
        app: `app-${seq}`,
        release_id: null,
        previous_release_id: null,
        status: "running",
      })),
    ),
    messages(
      "unknown configs",
      CONTROL_CHANNEL,
      report(() => ({ kind: "config", namespace: `n-${seq}`, version: 1, sha256: "" })),
    ),
    messages(
      "unknown targets",
      CONTROL_CHANNEL,
      report(() => ({
        kind: "target",
        deployment_id: `dep_${seq}`,
        target_id: `tgt_${seq}`,
        attempt: 1,
        status: "applied",
      })),
    ),
    messages(
      "generations",
      CONTROL_CHANNEL,
      report(() => ({ kind: "observed", generation: seq })),
    ),
    messages("progress of unknown targets", CONTROL_CHANNEL, () => ({
      type: "progress",
      target_id: `tgt_${(seq += 1)}`,
      attempt: 1,
      bytes_done: 1,
      bytes_total: 2,
    })),
    messages("health with every topic", CONTROL_CHANNEL, () => health({ ros: topics })),
    messages("health with every metric and check", CONTROL_CHANNEL, () => health({ metrics, checks })),
    messages("too many values", CONTROL_CHANNEL, () => ({ type: "health", snapshot: Array.from({ length: 80_000 }, () => []) })),
  ];
}
