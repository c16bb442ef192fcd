import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { LogLevel } from "@roamfleet/protocol/link";
import { LogShipper } from "./shipper.ts";

const FLUSH_MS = 1_000;

class Rig {
  readonly clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  readonly records: number[] = [];
  #sent = 0;
  /** Time in seconds and number of records of each batch. */
  readonly batches: [number, number][] = [];
  readonly shipper = new LogShipper(
    {
      next: ({ records }) => {
        const some = this.records.slice(this.#sent, this.#sent + records);
        this.#sent += some.length;
        return some.length === 0 ? undefined : { lines: some.map(String), last_seq: this.#sent, bytes: some.length * this.record_bytes };
      },
      rewind: (seq) => void (this.#sent = seq),
      acknowledge: () => {},
    },
    this.clock,
  );
  record_bytes = 200;

  start(): void {
    const send = (message: string): boolean => {
      this.batches.push([Math.round(this.clock.monotonic() / 100) / 10, message.split(",").length - 1]);
      return true;
    };
    this.shipper.start({ room: () => 1e9, send }, { acked: 0, flush_ms: FLUSH_MS });
  }

  add(level: LogLevel = "info", message = "x".repeat(100)): void {
    this.records.push(this.records.length + 1);
    this.shipper.recordAdded({ level, message });
  }

  async log(seconds: number): Promise<void> {
    for (let i = 0; i < seconds * 10; i += 1) {
      this.add();
      await this.clock.advance({ milliseconds: 100 });
      this.shipper.acknowledge(this.#sent);
      this.shipper.resume();
    }
  }
}

test("sends the first record after a pause within one interval, and sustained logs every ten intervals", async () => {
  const rig = new Rig();
  rig.start();
  await rig.log(35);
  const from = rig.batches[0]![0];
  assert.deepEqual(
    rig.batches.map(([at]) => Math.round(at - from)),
    [0, 10, 20, 30],
  );
  rig.batches.length = 0;
  await rig.clock.advance({ seconds: 30 });
  rig.batches.length = 0;
  rig.add();
  await rig.clock.advance({ seconds: 1 });
  assert.equal(rig.batches.length, 1);
});

for (const [name, add] of [
  ["an error", (rig: Rig) => rig.add("error")],
  ["64 KiB of text", (rig: Rig) => rig.add("info", "x".repeat(70_000))],
  ["a viewer who follows", (rig: Rig) => rig.shipper.follow(true)],
] satisfies [string, (rig: Rig) => void][])
  test(`sends sustained logs within one interval because of ${name}`, async () => {
    const rig = new Rig();
    rig.start();
    await rig.log(12);
    rig.batches.length = 0;
    add(rig);
    await rig.clock.advance({ milliseconds: FLUSH_MS });
    assert.equal(rig.batches.length, 1);
  });

test("sends more of a backlog at each acknowledgement, even while a flush is pending", async () => {
  const rig = new Rig();
  rig.record_bytes = 1_000;
  for (let i = 0; i < 5_000; i += 1) rig.records.push(i + 1);
  rig.start();
  rig.add();
  await rig.clock.advance({ milliseconds: FLUSH_MS });
  rig.add();
  for (let i = 0; i < 10; i += 1) rig.shipper.acknowledge((i + 1) * 1_000);
  const sent = rig.batches.reduce((sum, [, records]) => sum + records, 0);
  assert.equal(sent, 5_002);
});
