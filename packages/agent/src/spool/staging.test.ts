import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { LogSpool } from "./log-spool.ts";
import { STAGED_BYTES_MAX, STAGED_MS_MAX } from "./staging.ts";

const ALL = { records: 100_000, bytes: 1e9 };

class Rig {
  readonly clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  readonly disk: string;
  readonly memory: string;
  spool: LogSpool;

  constructor(t: TestContext) {
    const root = mkdtempSync(join(tmpdir(), "rf-staging-"));
    t.after(() => rmSync(root, { recursive: true, force: true }));
    [this.disk, this.memory] = [join(root, "disk"), join(root, "memory")];
    this.spool = this.open();
  }

  open(): LogSpool {
    const { clock, disk: directory, memory: memory_directory } = this;
    return (this.spool = new LogSpool({ directory, memory_directory, bytes_max: 1e8, clock, now: () => clock.now(), on_disk: () => {} }));
  }

  async write(...messages: string[]): Promise<void> {
    for (const message of messages) this.spool.append({ level: "info", source: "test", message });
    await Promise.resolve();
  }

  messages(): string[] {
    const found: string[] = [];
    for (let batch = this.spool.next(ALL); batch !== undefined; batch = this.spool.next(ALL))
      found.push(...batch.lines.map((line) => (JSON.parse(line) as { message: string }).message));
    return found;
  }

  get disk_bytes(): number {
    return readdirSync(this.disk).reduce((sum, name) => sum + statSync(join(this.disk, name)).size, 0);
  }
}

test("while the link is up, acknowledged records are never written to the disk", async (t) => {
  const rig = new Rig(t);
  rig.spool.linked = true;
  for (let i = 0; i < 100; i += 1) {
    await rig.write(`line ${i}`);
    assert.deepEqual(rig.messages(), [`line ${i}`]);
    await rig.write("late");
    rig.spool.acknowledge(rig.spool.last_seq - 1);
    assert.deepEqual(rig.messages(), ["late"]);
    rig.spool.acknowledge(rig.spool.last_seq);
    assert.equal(rig.disk_bytes, 0);
  }
  assert.deepEqual(readdirSync(rig.memory), []);
  rig.spool.close();
});

test("unacknowledged records survive kill -9 of the agent, in order and with their numbers", async (t) => {
  const rig = new Rig(t);
  await rig.write("before the link");
  rig.spool.linked = true;
  await rig.write("one", "two");
  rig.spool.next({ records: 1, bytes: 1e9 });
  await rig.write("three");
  // Open the spool again without closing it, as after kill -9.
  const { last_seq } = rig.spool;
  rig.open();
  assert.deepEqual(rig.messages(), ["before the link", "one", "two", "three"]);
  await rig.write("four");
  assert.ok(rig.spool.last_seq > last_seq);
  assert.deepEqual(rig.messages(), ["four"]);
  rig.spool.close();
});

test("record numbers are not reused after a power loss, although the records in memory are lost", async (t) => {
  const rig = new Rig(t);
  rig.spool.linked = true;
  await rig.write("one", "two");
  const { last_seq } = rig.spool;
  rmSync(rig.memory, { recursive: true });
  rig.open();
  assert.deepEqual(rig.messages(), []);
  await rig.write("three");
  assert.ok(rig.spool.last_seq > last_seq);
  rig.spool.close();
});

for (const [when, end] of [
  ["the link closes", (rig: Rig) => void (rig.spool.linked = false)],
  ["the agent stops", (rig: Rig) => rig.spool.close()],
  ["a log source requires it", (rig: Rig) => rig.spool.sync()],
  [`they have waited for ${STAGED_MS_MAX / 1_000} s`, (rig: Rig) => rig.clock.advance({ seconds: STAGED_MS_MAX / 1_000 })],
] satisfies [string, (rig: Rig) => unknown][])
  test(`records are written to the disk when ${when}`, async (t) => {
    const rig = new Rig(t);
    rig.spool.linked = true;
    await rig.write("one", "two");
    assert.equal(rig.disk_bytes, 0);
    await Promise.resolve(end(rig));
    assert.ok(rig.disk_bytes > 0);
    assert.deepEqual(readdirSync(rig.memory), []);
    rmSync(rig.memory, { recursive: true });
    rig.open();
    assert.deepEqual(rig.messages(), ["one", "two"]);
    await rig.write("three");
    rig.spool.linked = true;
    await rig.write("four");
    assert.deepEqual(rig.messages(), ["three", "four"]);
    rig.spool.close();
  });

test("log records in memory stay within their size limit", async (t) => {
  const rig = new Rig(t);
  rig.spool.linked = true;
  for (let i = 0; i < 300; i += 1) await rig.write("x".repeat(10_000));
  const staged = readdirSync(rig.memory).reduce((sum, name) => sum + statSync(join(rig.memory, name)).size, 0);
  assert.ok(staged <= STAGED_BYTES_MAX + 64 * 1024, `${staged}`);
  assert.equal(rig.messages().length, 300);
  rig.spool.close();
});

test("sends log records once if the agent is killed while it moves them to the disk", async (t) => {
  const rig = new Rig(t);
  rig.spool.linked = true;
  await rig.write("one", "two", "three");
  const [name = ""] = readdirSync(rig.memory);
  copyFileSync(join(rig.memory, name), join(rig.disk, "copy"));
  rig.spool.linked = false;
  // Restore the file in memory, as if the agent was killed before it deleted that file.
  copyFileSync(join(rig.disk, "copy"), join(rig.memory, name));
  rmSync(join(rig.disk, "copy"));
  rig.open();
  assert.deepEqual(rig.messages(), ["one", "two", "three"]);
  assert.deepEqual(readdirSync(rig.memory), []);
  rig.spool.close();
});

test("writes log records to the disk if the directory in memory cannot be used", async (t) => {
  const rig = new Rig(t);
  rmSync(rig.memory, { recursive: true });
  writeFileSync(rig.memory, "");
  rig.open();
  rig.spool.linked = true;
  await rig.write("one");
  assert.ok(rig.disk_bytes > 0);
  rig.spool.close();
});
