import assert from "node:assert/strict";
import { test } from "node:test";
import { BuiltinEndpointSet, type DataFragments, EntityIdBuiltin, Participant, ParticipantView } from "@foxglove/rtps";
import { boundFragments, FRAGMENTED_BYTES_MAX, FRAGMENTED_MESSAGES_MAX, type FragmentsInside } from "./fragments.ts";

const PREFIXES = ["0102030405060708090a0b0c", "0102030405060708090a0b0d"] as const;
const { PublicationsWriter, SubscriptionsWriter } = EntityIdBuiltin;
const ANNOUNCERS = BuiltinEndpointSet.PublicationAnnouncer | BuiltinEndpointSet.SubscriptionAnnouncer;
const UNKNOWN_WRITER = 0x0103;
const FRAGMENT_BYTES = 1_024;
const LARGE = 32 * 1024 * 1024;

/** Creates the library's participant, which has discovered two others; it is never started. */
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

test("fragments of an unknown writer are dropped without memory", () => {
  const { send, kept } = heard();
  for (let sequence = 1; sequence <= 500; sequence += 1) send(PREFIXES[0], UNKNOWN_WRITER, sequence, LARGE);
  send("ff".repeat(12), PublicationsWriter, 1, LARGE);
  assert.deepEqual(kept(), []);
});

test("the number of incomplete messages and their announced bytes are limited", () => {
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

test("only the fragment of a datagram is kept in memory", () => {
  const { send, kept } = heard();
  send(PREFIXES[0], PublicationsWriter, 1, 4_000);
  assert.equal(kept()[0]!.remainingFragments, 3);
  const { fragments } = kept()[0] as unknown as { fragments: Uint8Array[] };
  assert.equal(fragments[0]?.buffer.byteLength, FRAGMENT_BYTES);
});
