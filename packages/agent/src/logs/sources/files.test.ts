import assert from "node:assert/strict";
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { pino } from "pino";
import type { LogRecord } from "../../contract.ts";
import { LogRateLimiter } from "../log-rate-limiter.ts";
import { FILE_BACKLOG_BYTES_MAX, ROTATED_QUIET_MS } from "./file-follower.ts";
import { FileLogs, FILES_MAX } from "./files.ts";
import { Positions } from "./positions.ts";
import { LINE_BYTES_MAX } from "./tail.ts";

const TIMEOUT = { timeout: 120_000 };

/** A directory of logs and its follower, with a simulated clock. */
class Rig implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), "roamfleet-files-"));
  readonly state = join(this.directory, "state");
  readonly log = join(this.directory, "app.log");
  readonly clock: SimulatedClock;
  records: LogRecord[] = [];
  said: string[] = [];
  room = true;
  logs!: FileLogs;
  positions!: Positions;

  constructor(at = "2030-01-01T00:00:00Z") {
    this.clock = new SimulatedClock({ at });
    mkdirSync(this.state);
  }

  start(globs = [join(this.directory, "*.log")]): this {
    const { clock } = this;
    const log = pino({ level: "warn" }, { write: (line) => void this.said.push((JSON.parse(line) as { msg: string }).msg) });
    const limiter = new LogRateLimiter({ write: (record) => void this.records.push(record) }, clock);
    this.positions = new Positions({
      state_directory: this.state,
      recent_directory: this.state,
      boot_id: "boot",
      clock,
      log,
      spool: { last_seq: 0, is_written: true, isAcknowledged: () => true, sync: () => {} },
    });
    this.logs = new FileLogs({
      globs,
      state_directory: this.state,
      clock,
      log,
      limiter,
      positions: this.positions,
      spoolHasRoom: () => this.room,
    });
    this.logs.start();
    return this;
  }

  /** Advances the clock by `seconds` and returns the lines read since the last call. */
  async lines(seconds = 1): Promise<string[]> {
    await this.clock.advance({ seconds });
    return this.records.splice(0).map(({ message }) => message);
  }

  restart(): this {
    this.logs.stop();
    return this.start();
  }

  write(text: string | Buffer, path = this.log): void {
    appendFileSync(path, text);
  }

  [Symbol.dispose](): void {
    this.logs.stop();
    rmSync(this.directory, { recursive: true });
  }
}

test("follows a log file from its end and sends only complete lines", TIMEOUT, async () => {
  using rig = new Rig();
  rig.write("of before\n");
  rig.start();
  rig.write("one\ntwo\r\n\nhal");
  assert.deepEqual(await rig.lines(), ["one", "two"]);
  rig.write("f [ERROR] ü\n");
  rig.write(Buffer.from([0x61, 0xff, 0x62, 0x0a]));
  await rig.clock.advance({ seconds: 1 });
  assert.deepEqual(
    rig.records.splice(0).map(({ level, source, message }) => [level, source, message]),
    [
      ["error", rig.log, "half [ERROR] ü"],
      ["info", rig.log, "a\ufffdb"],
    ],
  );
  const long = "x".repeat(3 * LINE_BYTES_MAX);
  rig.write(`${long}\nafter\n`);
  await rig.clock.advance({ seconds: 1 });
  assert.deepEqual(
    rig.records.splice(0).map(({ message, fields }) => [message.length, fields]),
    [
      [LINE_BYTES_MAX, { truncated: true }],
      [5, undefined],
    ],
  );
});

test("loses no line when a log file is renamed before its writer reopens it", TIMEOUT, async () => {
  using rig = new Rig();
  rig.write("");
  rig.start();
  rig.write("1\n2\n");
  assert.deepEqual(await rig.lines(), ["1", "2"]);
  rig.write("3\n");
  renameSync(rig.log, `${rig.log}.1`);
  rig.write("5\n");
  rig.write("4\nhalf", `${rig.log}.1`);
  assert.deepEqual(await rig.lines(), ["3", "4", "5"]);
  rig.write("6\n");
  rig.write(" and whole\nlast without an end", `${rig.log}.1`);
  assert.deepEqual(await rig.lines(), ["half and whole", "6"]);
  assert.deepEqual(await rig.lines(ROTATED_QUIET_MS / 1_000 + 1), ["last without an end"]);
  // A second rotation replaces the rotated file.
  renameSync(rig.log, `${rig.log}.1`);
  assert.deepEqual(await rig.lines(), []);
  rig.write("7\n");
  assert.deepEqual(await rig.lines(), ["7"]);
  assert.deepEqual(rig.logs.paths, [rig.log]);
});

test("reads unread lines from the copy after a log rotation by copy and truncate", TIMEOUT, async () => {
  using rig = new Rig();
  rig.write("");
  rig.start();
  rig.write("1 first\n");
  assert.deepEqual(await rig.lines(), ["1 first"]);
  rig.write("2\n");
  copyFileSync(rig.log, `${rig.log}.1`);
  truncateSync(rig.log);
  // The new content is longer, so only its first bytes show that the file was truncated.
  rig.write("3 after the cut, and longer than what was there\n");
  assert.deepEqual(await rig.lines(), ["2", "3 after the cut, and longer than what was there"]);
  truncateSync(rig.log);
  rig.write("4\n");
  const [told, line] = await rig.lines();
  assert.match(told ?? "", /app\.log was rotated or truncated/);
  assert.equal(line, "4");
});

test("resumes reading at the saved position after a restart, even if log files were rotated", TIMEOUT, async () => {
  using rig = new Rig();
  rig.write("");
  rig.start();
  rig.write("1\nha");
  assert.deepEqual(await rig.lines(), ["1"]);
  rig.logs.stop();
  rig.write("lf\n2\n");
  rig.start();
  assert.deepEqual(await rig.lines(), ["half", "2"]);
  rig.logs.stop();
  rig.write("3\n");
  renameSync(rig.log, `${rig.log}.2`);
  await new Promise((resolve) => setTimeout(resolve, 20));
  writeFileSync(`${rig.log}.1`, "4\n");
  rig.write("5\n");
  rig.start();
  assert.deepEqual(await rig.lines(), ["3", "4", "5"]);
  rig.logs.stop();
  renameSync(rig.log, `${rig.log}.3`);
  unlinkSync(`${rig.log}.3`);
  rig.write("6\n");
  rig.start();
  assert.match((await rig.lines()).join("\n"), /rotated or truncated.*\n6$/);
  assert.deepEqual(await rig.restart().lines(ROTATED_QUIET_MS / 1_000 + 1), []);
});

test("reads new log files from the start, except rotated, compressed or binary files", TIMEOUT, async () => {
  using rig = new Rig();
  rig.start([join(rig.directory, "*")]);
  rig.write("first\n");
  rig.write("packed\n", `${rig.log}.2.gz`);
  rig.write("\0\0\0\n", join(rig.directory, "wtmp"));
  rig.write("in state\n", join(rig.state, "x.log"));
  assert.deepEqual(await rig.lines(6), ["first"]);
  assert.deepEqual(rig.said, ["a log file is binary: it is not followed"]);
  renameSync(rig.log, `${rig.log}.1`);
  rig.write("second\n");
  assert.deepEqual(await rig.lines(30), ["second"]);
});

test("reads a log file from the start if it was created while the agent was stopped", TIMEOUT, async () => {
  // The simulated clock is behind, so files created today are newer than the saved time.
  using rig = new Rig("2020-01-01T00:00:00Z");
  rig.start().logs.stop();
  rig.write("1\n");
  rig.start();
  assert.deepEqual(await rig.lines(), ["1"]);
  using ahead = new Rig("2090-01-01T00:00:00Z");
  ahead.start().logs.stop();
  ahead.write("1\n");
  ahead.start();
  ahead.write("2\n");
  assert.deepEqual(await ahead.lines(), ["2"]);
});

test("resumes a log file at its position after its path was inaccessible for a time", TIMEOUT, async () => {
  using rig = new Rig();
  const other = join(rig.directory, "other.log");
  rig.write("");
  rig.write("", other);
  rig.start([join(rig.directory, "*.log"), join(rig.directory, "circle.log")]);
  // Equivalent to a directory without permission, which cannot be tested as root.
  renameSync(rig.log, join(rig.directory, "kept"));
  symlinkSync(rig.log, rig.log);
  symlinkSync("circle.log", join(rig.directory, "circle.log"));
  rig.write("of the other\n", other);
  rig.write("1\n", join(rig.directory, "kept"));
  assert.deepEqual((await rig.lines(2 + ROTATED_QUIET_MS / 1_000)).toSorted(), ["1", "of the other"]);
  rig.restart();
  rig.write("more of the other\n", other);
  assert.deepEqual(await rig.lines(6), ["more of the other"]);
  unlinkSync(rig.log);
  renameSync(join(rig.directory, "kept"), rig.log);
  rig.write("2\n");
  assert.deepEqual(await rig.lines(6), ["2"]);
});

test("follows at most the maximum number of log files and logs a warning about others", TIMEOUT, async () => {
  using rig = new Rig();
  for (let i = 0; i < FILES_MAX + 5; i += 1) rig.write("", join(rig.directory, `${i}.log`));
  rig.start();
  assert.equal(rig.logs.paths.length, FILES_MAX);
  assert.deepEqual(rig.said, ["too many log files: this file and further ones are not followed"]);
  await rig.clock.advance({ seconds: 20 });
  assert.equal(rig.said.length, 1);
});

test("stops reading a log file while the spool is full, and drops lines beyond the backlog limit", TIMEOUT, async () => {
  using rig = new Rig();
  rig.write("");
  rig.start();
  rig.room = false;
  rig.write("waits\n");
  assert.deepEqual(await rig.lines(), []);
  rig.room = true;
  assert.deepEqual(await rig.lines(), ["waits"]);
  rig.room = false;
  const line = `${"y".repeat(1_023)}\n`;
  const count = FILE_BACKLOG_BYTES_MAX / line.length + 100;
  rig.write(line.repeat(count));
  await rig.clock.advance({ seconds: 5 });
  const gaps = rig.records.splice(0);
  const dropped = gaps.reduce((sum, { fields }) => sum + (fields as { gap: { count: number } }).gap.count, 0);
  assert.ok(dropped >= 100 && dropped < 200, String(dropped));
  assert.ok(gaps.every(({ fields }) => fields?.["source"] === rig.log));
  rig.room = true;
  let lines = 0;
  while (lines < count - dropped) {
    const more = (await rig.lines(30)).length;
    assert.ok(more > 0);
    lines += more;
  }
  assert.equal(lines, count - dropped);
});
