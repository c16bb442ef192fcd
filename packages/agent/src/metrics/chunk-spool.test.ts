import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { Samples } from "@roamfleet/protocol/link";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { ChunkSender } from "./chunk-sender.ts";
import { CHUNK_SPOOL_BYTES_MAX, ChunkSpool } from "./chunk-spool.ts";

const open = (directory: string, on_disk: (reason: string | undefined) => void = () => {}): ChunkSpool =>
  new ChunkSpool({ directory, randomBytes, on_disk });

/** Acknowledges all waiting chunks, and returns their contents. */
function drain(spool: ChunkSpool): string[] {
  const contents: string[] = [];
  for (let next = spool.first(); next !== undefined; next = spool.first()) {
    contents.push(next.chunk.toString());
    spool.acknowledge(next.spool_id, next.seq);
  }
  return contents;
}

test("waiting chunks survive restarts, in order, and each start has its own spool id", (t: TestContext) => {
  const directory = join(temporaryDirectory(t), "metrics");
  const first = open(directory);
  for (const text of ["a", "b"]) first.add(Buffer.from(text));
  const second = open(directory);
  second.add(Buffer.from("c"));
  const third = open(directory);
  third.add(Buffer.from("d"));
  const { spool_id } = third.first()!;
  assert.equal(spool_id, first.first()?.spool_id);
  assert.deepEqual(drain(third), ["a", "b", "c", "d"]);
  assert.deepEqual(readdirSync(directory), []);
  third.add(Buffer.from("e"));
  assert.notEqual(third.first()?.spool_id, spool_id);
  assert.equal(third.first()?.seq, 2);
});

test("an acknowledgement removes only the oldest chunk, and only by its own number", (t: TestContext) => {
  const spool = open(join(temporaryDirectory(t), "metrics"));
  for (const text of ["a", "b"]) spool.add(Buffer.from(text));
  const { spool_id, seq } = spool.first()!;
  spool.acknowledge(spool_id, seq + 1);
  spool.acknowledge("other", seq);
  assert.equal(spool.size, 2);
  spool.acknowledge(spool_id, seq);
  spool.acknowledge(spool_id, seq);
  assert.deepEqual(drain(spool), ["b"]);
});

test("a full spool drops the oldest chunks and counts them", (t: TestContext) => {
  const spool = open(join(temporaryDirectory(t), "metrics"));
  const size = 1024 * 1024;
  for (let i = 0; i < 6; i += 1) spool.add(Buffer.alloc(size, String(i)));
  assert.equal(spool.dropped, 6 - CHUNK_SPOOL_BYTES_MAX / size);
  assert.equal(spool.first()?.chunk.toString("latin1", 0, 1), "2");
});

test("files that are no chunks are ignored, and a file that vanished is skipped", (t: TestContext) => {
  const directory = join(temporaryDirectory(t), "metrics");
  open(directory).add(Buffer.from("a"));
  const [file = ""] = readdirSync(directory);
  writeFileSync(join(directory, "README"), "mine");
  writeFileSync(join(directory, `${file}.tmp`), "half");
  const spool = open(directory);
  assert.deepEqual(readdirSync(directory), [file, "README"].toSorted());
  spool.add(Buffer.from("b"));
  rmSync(join(directory, file));
  assert.deepEqual(drain(spool), ["b"]);
  assert.equal(spool.dropped, 1);
  assert.equal(readFileSync(join(directory, "README"), "utf8"), "mine");
});

test("while writes to the disk fail, chunks wait in memory", (t) => {
  const directory = join(temporaryDirectory(t), "metrics");
  const said: (string | undefined)[] = [];
  const spool = open(directory, (reason) => said.push(reason));
  rmSync(directory, { recursive: true });
  for (const text of ["a", "b"]) spool.add(Buffer.from(text));
  mkdirSync(directory);
  spool.add(Buffer.from("c"));
  assert.deepEqual(
    said.map((reason) => typeof reason),
    ["string", "undefined"],
  );
  assert.deepEqual(drain(spool), ["a", "b", "c"]);
});

test("sends one chunk at a time, repeats it without an acknowledgement, and waits for room", async (t) => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const spool = open(join(temporaryDirectory(t), "metrics"));
  for (const text of ["a", "b"]) spool.add(Buffer.from(text));
  const sent: Samples[] = [];
  let room = 0;
  const sender = new ChunkSender(spool, clock);
  const outlet = { room: () => room, send: (message: Samples) => sent.push(message) > 0 };
  sender.start(outlet);
  assert.equal(sent.length, 0);
  room = 1024 * 1024;
  sender.pump();
  sender.pump();
  assert.deepEqual(
    sent.map(({ seq, chunk }) => [seq, Buffer.from(chunk, "base64").toString()]),
    [[1, "a"]],
  );
  await clock.advance({ seconds: 60 });
  assert.equal(sent.length, 2);
  assert.deepEqual(sent[1], sent[0]);
  sender.acknowledge("other", 1);
  assert.equal(sent.length, 2);
  sender.acknowledge(sent[0]!.spool_id, 1);
  assert.equal(sent.at(-1)?.seq, 2);
  sender.stop();
  sender.acknowledge(sent[0]!.spool_id, 2);
  assert.equal(spool.size, 1, "an acknowledgement of an ended link is ignored");
  sender.start(outlet);
  assert.equal(sent.at(-1)?.seq, 2);
});
