import assert from "node:assert/strict";
import { test } from "node:test";
import { BuiltinEndpointSet, type DataFragments, EntityIdBuiltin, Participant, ParticipantView } from "@foxglove/rtps";
import {
  boundFragments,
  DDS_MESSAGE_BYTES_MAX,
  FRAGMENTED_BYTES_MAX,
  FRAGMENTED_MESSAGES_MAX,
  type FragmentsInside,
  PARTICIPANT_WRITER,
  PUBLICATIONS_WRITER,
  screenDatagram,
} from "./datagram.ts";

const PREFIX = "0102030405060708090a0b0c";
const HEADER = Buffer.concat([Buffer.from("RTPS"), Buffer.from([2, 1, 1, 0x10]), Buffer.from(PREFIX, "hex")]);

/** Builds a submessage in little endian, with its correct length unless another one is passed. */
function submessage(id: number, body: Buffer, { flags = 1, length = body.length } = {}): Buffer {
  const head = Buffer.from([id, flags, 0, 0]);
  head.writeUInt16LE(length, 2);
  return Buffer.concat([head, body]);
}

const datagram = (...submessages: Buffer[]): Uint8Array => Uint8Array.from(Buffer.concat([HEADER, ...submessages]));

/** Builds the body of a DATA submessage up to inline QoS and payload. */
function dataHead(writer: number, sequence = 1): Buffer {
  const body = Buffer.alloc(20);
  body.writeUInt16LE(16, 2);
  body.writeUInt32BE(writer, 8);
  body.writeUInt32LE(sequence, 16);
  return body;
}

function fragment(options: { start?: number; count?: number; size?: number; total?: number; bytes?: number }): Buffer {
  const { start = 1, count = 1, size = 1_000, total = 3_000, bytes = 1_000 } = options;
  const body = Buffer.alloc(32 + bytes);
  body.writeUInt16LE(28, 2);
  body.writeUInt32LE(start, 20);
  body.writeUInt16LE(count, 24);
  body.writeUInt16LE(size, 26);
  body.writeUInt32LE(total, 28);
  return submessage(0x16, body);
}

function heartbeat(first: bigint, last: bigint): Buffer {
  const body = Buffer.alloc(28);
  for (const [at, value] of [
    [8, first],
    [16, last],
  ] as const) {
    body.writeInt32LE(Number(value >> 32n), at);
    body.writeUInt32LE(Number(value & 0xffffffffn), at + 4);
  }
  return submessage(0x07, body);
}

const isTaken = (...submessages: Buffer[]): boolean => screenDatagram(datagram(...submessages)) !== undefined;

test("drops datagrams that are truncated or not RTPS", () => {
  assert.equal(screenDatagram(new Uint8Array(0)), undefined);
  assert.equal(screenDatagram(Uint8Array.from(HEADER.subarray(0, 19))), undefined);
  assert.equal(screenDatagram(new Uint8Array(100).fill(255)), undefined);
  const data = submessage(0x15, Buffer.concat([dataHead(3), Buffer.from("payload!")]), { flags: 5 });
  const whole = datagram(data);
  assert.deepEqual(screenDatagram(whole), { guid_prefix: PREFIX, disposed: [] });
  for (let length = HEADER.length + 1; length < whole.length; length += 1)
    assert.equal(screenDatagram(whole.slice(0, length)), undefined, `${length}`);
  assert.equal(isTaken(submessage(0x15, Buffer.alloc(8))), false);
  assert.equal(isTaken(...Array.from({ length: 2_000 }, () => submessage(0x01, Buffer.alloc(0)))), false);
});

test("drops RTPS datagrams with sequence or fragment ranges that could block the library for hours", () => {
  assert.equal(isTaken(heartbeat(1n, 50_000n)), true);
  assert.equal(isTaken(heartbeat(5n, 4n)), true);
  assert.equal(isTaken(heartbeat(1n, 2n ** 60n)), false);
  assert.equal(isTaken(heartbeat(-5n, 4n)), false);
  assert.equal(isTaken(fragment({})), true);
  assert.equal(isTaken(fragment({ size: 1 })), false);
  assert.equal(isTaken(fragment({ total: DDS_MESSAGE_BYTES_MAX + 1 })), false);
  assert.equal(isTaken(fragment({ size: 256, total: DDS_MESSAGE_BYTES_MAX })), false);
  assert.equal(isTaken(fragment({ start: 4 })), false);
  assert.equal(isTaken(fragment({ count: 2 })), false, "two fragments announced, one present");
  const bits = Buffer.alloc(32);
  bits.writeUInt32LE(100_000, 24);
  assert.equal(isTaken(submessage(0x08, bits)), false);
});

test("normalizes a zero submessage length and an invalidated timestamp in an RTPS datagram", () => {
  const bytes = datagram(
    submessage(0x09, Buffer.alloc(0), { flags: 3 }),
    submessage(0x15, Buffer.concat([dataHead(3), Buffer.alloc(8)]), { flags: 5, length: 0 }),
  );
  assert.ok(screenDatagram(bytes));
  assert.deepEqual([bytes[20], bytes[24 + 2]], [0x01, 28]);
});

const parameter = (id: number, value: Buffer): Buffer => {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(id);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value]);
};
const END = parameter(1, Buffer.alloc(0));
const OVER = parameter(0x71, Buffer.from([0, 0, 0, 3]));

test("rewrites the inline QoS of an RTPS datagram as padding and keeps its payload", () => {
  const payload = Buffer.from("the payload!");
  const qos = Buffer.concat([parameter(0x70, Buffer.alloc(16, 9)), END]);
  const bytes = datagram(submessage(0x15, Buffer.concat([dataHead(3, 77), qos, payload]), { flags: 7 }), submessage(0x01, Buffer.alloc(4)));
  assert.ok(screenDatagram(bytes));
  const at = HEADER.length + qos.length;
  assert.deepEqual([bytes[20], Buffer.from(bytes).readUInt16LE(22)], [0x01, qos.length - 4]);
  assert.deepEqual([bytes[at], bytes[at + 1], Buffer.from(bytes).readUInt16LE(at + 2)], [0x15, 5, 20 + payload.length]);
  assert.equal(Buffer.from(bytes).readUInt32LE(at + 20), 77);
  assert.equal(Buffer.from(bytes.subarray(at + 24, at + 24 + payload.length)).toString(), "the payload!");
  assert.ok(screenDatagram(bytes), "it stays valid");
});

test("recognizes a DDS disposal by its key hash and by its serialized key", () => {
  const guid = Buffer.from(`${PREFIX}00000103`, "hex");
  const hashed = Buffer.concat([dataHead(PUBLICATIONS_WRITER), OVER, parameter(0x70, guid), END]);
  assert.deepEqual(screenDatagram(datagram(submessage(0x15, hashed, { flags: 3 })))?.disposed, [
    { writer: PUBLICATIONS_WRITER, guid: guid.toString("hex") },
  ]);
  const key = Buffer.concat([Buffer.from([0, 3, 0, 0]), parameter(0x50, guid), END]);
  const spelled = Buffer.concat([dataHead(PARTICIPANT_WRITER), OVER, END, key]);
  assert.deepEqual(screenDatagram(datagram(submessage(0x15, spelled, { flags: 0x0b })))?.disposed, [
    { writer: PARTICIPANT_WRITER, guid: guid.toString("hex") },
  ]);
  const alive = Buffer.concat([dataHead(PUBLICATIONS_WRITER), parameter(0x71, Buffer.alloc(4)), parameter(0x70, guid), END]);
  assert.deepEqual(screenDatagram(datagram(submessage(0x15, alive, { flags: 3 })))?.disposed, []);
  const endless = Buffer.concat([dataHead(PUBLICATIONS_WRITER), parameter(0x70, guid)]);
  assert.equal(isTaken(submessage(0x15, endless, { flags: 3 })), false);
});

const PREFIXES = ["0102030405060708090a0b0c", "0102030405060708090a0b0d"] as const;
const { PublicationsWriter, SubscriptionsWriter } = EntityIdBuiltin;
const ANNOUNCERS = BuiltinEndpointSet.PublicationAnnouncer | BuiltinEndpointSet.SubscriptionAnnouncer;
const UNKNOWN_WRITER = 0x0103;
const FRAGMENT_BYTES = 1_024;
const LARGE = 32 * 1024 * 1024;

/** Creates a participant of the library that has discovered two others. The participant is never started. */
function heard() {
  const participant = new Participant({
    name: "test",
    addresses: ["127.0.0.1"],
    domainId: 0,
    udpSocketCreate: () => Promise.reject(new Error("no socket")),
  });
  const inside = participant as unknown as FragmentsInside;
  const views = PREFIXES.map(
    (guidPrefix) => new ParticipantView(participant, { ...participant.attributes, guidPrefix, availableBuiltinEndpoints: ANNOUNCERS }),
  );
  Object.assign(inside, { _participants: new Map(views.map((view) => [view.attributes.guidPrefix, view])) });
  boundFragments(participant);
  const datagram = new Uint8Array(60_000);
  const send = (guid_prefix: string, writerEntityId: number, sequence: number, sampleSize: number): void =>
    inside.handleDataFrag(guid_prefix, {
      readerEntityId: 0,
      writerEntityId,
      writerSeqNumber: BigInt(sequence),
      sampleSize,
      fragmentSize: FRAGMENT_BYTES,
      fragmentStartingNum: 1,
      fragments: [datagram.subarray(100, 100 + FRAGMENT_BYTES)],
      effectiveTimestamp: undefined,
    });
  const kept = (): DataFragments[] =>
    views.flatMap(({ writerIdToDataFragments }) =>
      Array.from(writerIdToDataFragments.values()).flatMap((messages) => Array.from(messages.values())),
    );
  return { send, kept, views };
}

const bytesOf = (kept: DataFragments[]): number => kept.reduce((sum, { totalBytes }) => sum + totalBytes, 0);

test("drops RTPS fragments of an unknown writer without buffering them", () => {
  const { send, kept } = heard();
  for (let sequence = 1; sequence <= 500; sequence += 1) send(PREFIXES[0], UNKNOWN_WRITER, sequence, LARGE);
  send("ff".repeat(12), PublicationsWriter, 1, LARGE);
  assert.deepEqual(kept(), []);
});

test("limits the number and the announced bytes of incomplete DDS messages", () => {
  const { send, kept, views } = heard();
  for (let sequence = 1; sequence <= 500; sequence += 1) send(PREFIXES[0], PublicationsWriter, sequence, LARGE);
  assert.deepEqual([kept().length, bytesOf(kept())], [2, FRAGMENTED_BYTES_MAX]);
  const begun = Array.from(views[0]!.writerIdToDataFragments.get(PublicationsWriter)?.keys() ?? []);
  assert.deepEqual(begun, [499n, 500n], "a writer's older incomplete messages are evicted for its newer ones");
  send(PREFIXES[1], PublicationsWriter, 1, LARGE);
  assert.equal(views[1]!.writerIdToDataFragments.size, 0, "other writers' messages are not evicted");
  const small = heard();
  for (let sequence = 1; sequence <= 500; sequence += 1)
    for (const writer of [PublicationsWriter, SubscriptionsWriter]) small.send(PREFIXES[sequence % 2]!, writer, sequence, 2_000);
  assert.equal(small.kept().length, FRAGMENTED_MESSAGES_MAX);
});

test("buffers only the fragment of an RTPS datagram, not the whole datagram", () => {
  const { send, kept } = heard();
  send(PREFIXES[0], PublicationsWriter, 1, 4_000);
  assert.equal(kept()[0]!.remainingFragments, 3);
  const { fragments } = kept()[0] as unknown as { fragments: Uint8Array[] };
  assert.equal(fragments[0]?.buffer.byteLength, FRAGMENT_BYTES);
});
