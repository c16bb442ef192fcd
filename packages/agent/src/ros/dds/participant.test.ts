import assert from "node:assert/strict";
import { test } from "node:test";
import { SequenceNumberSet } from "@foxglove/rtps";
import { Received } from "./participant.ts";

function make() {
  const context = { writer: "a" };
  const received = new Received(context, (base, bits) => new SequenceNumberSet(base, bits));
  const take = (writer: string, ...numbers: number[]): void => {
    for (const number of numbers) received.set({ writerGuid: writer, sequenceNumber: BigInt(number) });
  };
  const ask = (writer: string, first: number, last: number): { base: bigint; missing: bigint[] } => {
    context.writer = writer;
    const set = received.heartbeatUpdate(BigInt(first), BigInt(last));
    return { base: set.base, missing: [...set.sequenceNumbers()] };
  };
  return { received, take, ask };
}

test("requests missing DDS messages separately for each writer", () => {
  const { received, take, ask } = make();
  take("a", 1, 2, 4);
  take("b", 1);
  assert.deepEqual(ask("a", 1, 5), { base: 3n, missing: [3n, 5n] });
  assert.deepEqual(ask("b", 1, 2), { base: 2n, missing: [2n] });
  take("a", 3, 5);
  assert.deepEqual(ask("a", 1, 5), { base: 6n, missing: [] });
  assert.deepEqual([received.has("a", 5n), received.has("a", 6n), received.has("b", 3n)], [true, false, false]);
  received.forget("a");
  assert.equal(received.has("a", 5n), false);
});

test("does not request DDS messages that the writer no longer has", () => {
  const { take, ask } = make();
  take("a", 12);
  assert.deepEqual(ask("a", 10, 12), { base: 10n, missing: [10n, 11n] });
  assert.deepEqual(ask("a", 12, 12), { base: 13n, missing: [] });
  assert.equal(ask("b", 1, 0).base, 0n);
});

test("tracks a gap of billions of DDS messages in bounded memory", () => {
  const { received, ask } = make();
  received.addGapRange(1n, 10_000_000_000n, undefined, "a");
  assert.deepEqual(ask("a", 1, 10_000_000_001), { base: 10_000_000_001n, missing: [10_000_000_001n] });
  received.addGapRange(5n, 2n ** 62n, undefined, "b");
  assert.deepEqual(ask("b", 1, 8), { base: 1n, missing: [1n, 2n, 3n, 4n] });
});

test("tracks a best-effort DDS writer that loses messages in bounded memory", () => {
  const { received, take } = make();
  for (let number = 1_000_000; number < 1_050_000; number += 2) take("a", number);
  // Message 1,000,001 is no longer requested, since too many messages arrived after it.
  assert.equal(received.has("a", 1_000_001n), true);
  assert.equal(received.has("a", 1_049_997n), false);
});
