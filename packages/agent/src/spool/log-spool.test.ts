import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { seededRandom, SimulatedClock } from "@roamfleet/clock";
import { LogRecordBody } from "@roamfleet/protocol/link/messages";
import { Value } from "typebox/value";
import { LogSpool } from "./log-spool.ts";

const ALL = { records: 100_000, bytes: 1e9 };

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), "rf-logs-"));
  t.after(() => {
    if (statSync(directory).dev !== statSync(tmpdir()).dev) spawnSync("umount", ["-l", directory]);
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

interface Opening {
  bytes_max?: number;
  on_disk?: (reason: string | undefined) => void;
  clock?: SimulatedClock;
}

function open(
  directory: string,
  { bytes_max = 1e8, on_disk = () => {}, clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" }) }: Opening = {},
): LogSpool {
  return new LogSpool({ directory, bytes_max, clock, now: () => clock.now(), on_disk });
}

const write = (spool: LogSpool, message: string): void => spool.append({ level: "info", source: "test", message });

function drain(spool: LogSpool, bounds = ALL): LogRecordBody[] {
  const records: LogRecordBody[] = [];
  for (let batch = spool.next(bounds); batch !== undefined; batch = spool.next(bounds)) {
    for (const line of batch.lines) records.push(JSON.parse(line) as LogRecordBody);
    assert.equal(records.at(-1)!.seq, batch.last_seq);
  }
  return records;
}

const gapOf = (record: LogRecordBody): { count: number; from_seq: number; to_seq: number } | undefined =>
  record.fields.gap as { count: number; from_seq: number; to_seq: number } | undefined;

test("returns log records in order, in bounded batches, and again after a rewind", (t) => {
  const spool = open(temporaryDirectory(t));
  for (let i = 0; i < 2_500; i += 1) write(spool, `message ${i}`);
  const first = spool.next({ records: 1_000, bytes: 1e9 })!;
  assert.equal(first.lines.length, 1_000);
  const second = spool.next({ records: 1_000, bytes: 10_000 })!;
  assert.ok(second.bytes <= 10_000 && second.lines.length > 50);
  spool.rewind(first.last_seq);
  assert.deepEqual(
    drain(spool).map(({ message }) => message),
    Array.from({ length: 1_500 }, (_, i) => `message ${i + 1_000}`),
  );
  assert.equal(spool.has_unsent, false);
  spool.close();
});

test("returns unacknowledged log records after a restart and numbers new records higher", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  for (let i = 0; i < 10; i += 1) write(first, `a${i}`);
  const sent = drain(first);
  first.acknowledge(sent[4]!.seq);
  first.close();
  const second = open(directory);
  write(second, "b");
  second.rewind(sent[4]!.seq);
  const records = drain(second);
  assert.deepEqual(
    records.map(({ message }) => message),
    ["a5", "a6", "a7", "a8", "a9", "b"],
  );
  assert.ok(records.at(-1)!.seq > sent.at(-1)!.seq);
  second.close();
});

test("replaces the oldest log records over the limit by one gap record with their count", (t) => {
  const directory = temporaryDirectory(t);
  const spool = open(directory, { bytes_max: 64 * 1024 });
  const total = 5_000;
  for (let i = 0; i < total; i += 1) write(spool, `message ${i}`);
  const records = drain(spool);
  const [gap, ...rest] = records;
  assert.ok(spool.bytes <= 2 * 64 * 1024);
  assert.equal(gap!.level, "warn");
  assert.equal(gap!.source, "roamfleet");
  const { count, from_seq, to_seq } = gapOf(gap!)!;
  assert.equal(gap!.message, `${count} records dropped`);
  assert.deepEqual([from_seq, to_seq, gap!.seq], [1, count, count]);
  assert.deepEqual(
    rest.map(({ message }) => message),
    Array.from({ length: total - count }, (_, i) => `message ${i + count}`),
  );
  assert.equal(spool.dropped, count);
  spool.close();
  assert.deepEqual(
    drain(open(directory, { bytes_max: 64 * 1024 })).map(({ message }) => message),
    records.map(({ message }) => message),
  );
});

test("each log record arrives once or is counted in a gap despite drops, resends and restarts", { timeout: 120_000 }, (t) => {
  for (let seed = 1; seed <= 12; seed += 1) {
    const random = seededRandom(seed);
    const pick = (n: number): number => Math.floor(random() * n);
    const directory = temporaryDirectory(t);
    let spool = open(directory, { bytes_max: 20_000 });
    let written = 0;
    let acked = 0;
    const arrived: number[] = [];
    let counted = 0;
    const receive = (): void => {
      const batch = spool.next({ records: 1 + pick(50), bytes: 100 + pick(5_000) });
      // 30% of the batches are lost in transit. The server accepts later batches only after a rewind.
      if (batch === undefined || random() < 0.3) return spool.rewind(acked);
      for (const line of batch.lines) {
        const record = JSON.parse(line) as LogRecordBody;
        assert.ok(record.seq > acked, `seed ${seed}: ${record.seq} after ${acked}`);
        acked = record.seq;
        const gap = gapOf(record);
        if (gap === undefined) arrived.push(Number(record.message.split(" ")[0]));
        else counted += gap.count;
      }
      if (random() < 0.8) spool.acknowledge(acked);
    };
    for (let step = 0; step < 400; step += 1) {
      const what = random();
      if (what < 0.6) for (let i = pick(20); i > 0; i -= 1) write(spool, `${(written += 1)} ${"x".repeat(pick(200))}`);
      else if (what < 0.97) receive();
      else {
        spool.close();
        spool = open(directory, { bytes_max: 20_000 });
        spool.rewind(acked);
      }
    }
    spool.rewind(acked);
    for (let tries = 0; spool.has_unsent; tries += 1) {
      assert.ok(tries < 10_000, `seed ${seed}: there are records but none is returned`);
      receive();
    }
    assert.deepEqual(
      arrived,
      arrived.toSorted((a, b) => a - b),
      `seed ${seed}`,
    );
    assert.equal(new Set(arrived).size, arrived.length, `seed ${seed}`);
    assert.equal(arrived.length + counted, written, `seed ${seed}`);
    spool.close();
  }
});

test("drops a truncated last line of the log spool and reports other damage as a gap", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  for (let i = 1; i <= 5; i += 1) write(first, `message ${i}`);
  first.close();
  const path = join(
    directory,
    readdirSync(directory).find((name) => name.endsWith(".jsonl"))!,
  );
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  lines[2] = "\0".repeat(lines[2]!.length);
  writeFileSync(path, `${lines.join("\n")}\n`);
  appendFileSync(path, '{"seq":6,"at":"20');
  const second = open(directory);
  assert.deepEqual(
    drain(second).map(({ message }) => message),
    ["message 1", "message 2", "1 records dropped", "message 4", "message 5"],
  );
  second.close();
});

test("replaces a log record with a wrong checksum by a gap record", (t) => {
  const directory = temporaryDirectory(t);
  const first = open(directory);
  for (let i = 1; i <= 3; i += 1) write(first, `message ${i}`);
  first.close();
  for (const name of readdirSync(directory)) {
    const path = join(directory, name);
    writeFileSync(path, readFileSync(path, "utf8").replace(/"level":"info"(.*message 2)/, '"level":"infp"$1'));
  }
  const second = open(directory);
  assert.deepEqual(
    drain(second).map(({ message }) => message),
    ["message 1", "1 records dropped", "message 3"],
  );
  second.close();
});

test("stores any text as one log record, even with newlines or invalid Unicode", (t) => {
  const spool = open(temporaryDirectory(t));
  write(spool, "a\nb\r\u0000\u001b[31m");
  write(spool, "lone \ud800 half");
  write(spool, `${"é".repeat(16_383)}😀tail`);
  spool.append({ level: "info", source: "", message: "", fields: { nested: nest(10_000), key: 1n } });
  const records = drain(spool);
  for (const record of records) assert.deepEqual(Value.Errors(LogRecordBody, record), []);
  assert.equal(records[0]!.message, "a\nb\r\u0000\u001b[31m");
  assert.equal(records[1]!.message, "lone \ufffd half");
  assert.equal(records[2]!.message, "é".repeat(16_383));
  assert.deepEqual(records[2]!.fields, { truncated_bytes: Buffer.byteLength("😀tail") });
  assert.equal(records[3]!.source, "unknown");
  assert.deepEqual(records[3]!.fields, { fields_dropped: "nested too deeply" });
  spool.close();
});

function nest(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = [value];
  return value;
}

test("sends a gap record when the server's sequence number is ahead of the log spool", (t) => {
  const directory = temporaryDirectory(t);
  const spool = open(directory);
  write(spool, "lost");
  spool.rewind(1_000_000);
  write(spool, "next");
  const [gap, next] = drain(spool);
  assert.deepEqual([gap!.seq, gapOf(gap!)!.count], [1_000_001, 1]);
  assert.deepEqual([next!.seq, next!.message], [1_000_002, "next"]);
  spool.close();
  const again = open(directory);
  again.rewind(1_000_002);
  write(again, "after");
  assert.deepEqual(
    drain(again).map(({ message }) => message),
    ["after"],
  );
  again.close();
});

test("kill -9 loses no log record appended before the current turn of the event loop", { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  const program = `
    import { LogSpool } from ${JSON.stringify(join(import.meta.dirname, "log-spool.ts"))};
    import { systemClock } from "@roamfleet/clock";
    const spool = new LogSpool({ directory: process.argv[1], bytes_max: 1e8, clock: systemClock, now: () => systemClock.now(), on_disk() {} });
    let i = 0;
    const turn = () => {
      spool.append({ level: "info", source: "child", message: String(i += 1) });
      setImmediate(() => process.stdout.write(i + "\\n", turn));
    };
    turn();`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program, directory], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: import.meta.dirname,
  });
  const ended = once(child, "exit");
  let told = 0;
  for await (const line of createInterface(child.stdout)) {
    told = Number(line);
    if (told === 500) child.kill("SIGKILL");
  }
  await ended;
  const spool = open(directory);
  const kept = drain(spool).map(({ message }) => Number(message));
  assert.ok(told >= 500);
  assert.deepEqual(
    kept.slice(0, told),
    Array.from({ length: told }, (_, i) => i + 1),
  );
  spool.close();
});

test("on a full disk, keeps the newest log records in memory and counts dropped records", { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", directory]);
  if (mount.status !== 0) return t.skip("needs root and tmpfs to make a disk that is full");
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const troubles: (string | undefined)[] = [];
  const spool = open(directory, { clock, on_disk: (reason) => troubles.push(reason) });
  write(spool, "0");
  drain(spool);
  spool.rewind(0);
  const ballast = join(directory, "ballast");
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(512 * 1024)), { code: "ENOSPC" });
  const total = 20_000;
  for (let i = 1; i < total; i += 1) write(spool, `${i} ${"x".repeat(100)}`);
  assert.match((drain(spool), troubles[0]!), /ENOSPC/);
  assert.ok(spool.bytes < 1.5 * 1024 * 1024, `${spool.bytes} bytes`);
  assert.ok(spool.dropped > 0);
  spool.rewind(0);
  rmSync(ballast);
  await clock.advance({ seconds: 10 });
  const records = drain(spool);
  const counted = records.reduce((sum, record) => sum + (gapOf(record)?.count ?? 0), 0);
  const arrived = records.filter((record) => gapOf(record) === undefined).map(({ message }) => Number(message.split(" ")[0]));
  assert.equal(arrived.length + counted, total);
  assert.equal(arrived[0], 0);
  assert.equal(arrived.at(-1), total - 1);
  // Acknowledge all returned records. The next record then finds the disk writable.
  spool.acknowledge(records.at(-1)!.seq);
  write(spool, "after");
  assert.deepEqual(
    drain(spool).map(({ message }) => message),
    ["after"],
  );
  assert.equal(troubles.at(-1), undefined);
  spool.close();
  const reopened = open(directory);
  reopened.rewind(records.at(-1)!.seq);
  assert.deepEqual(
    drain(reopened).map(({ message }) => message),
    ["after"],
  );
  reopened.close();
});
