import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { pino } from "pino";
import type { LogRecord } from "../../contract.ts";
import { boundedLines, readJournalEntry } from "./journald.ts";
import { type LogSources, startLogSources } from "./index.ts";

const TIMEOUT = { timeout: 180_000 };
const CLOCKS_APART_MS_MAX = 120_000;
const JOURNALD = "/lib/systemd/systemd-journald";

/** A real journald with a separate /run, which leaves the machine's journal unchanged. Its journal is in `directory`. */
class RealJournal implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), "roamfleet-journal-"));
  #daemon: ChildProcess | undefined;

  static async start(): Promise<RealJournal> {
    const journal = new RealJournal();
    const script = `set -e
mount -t tmpfs none /run
mkdir -p /run/log/journal /run/systemd/journal
mount --bind ${journal.directory} /run/log/journal
exec ${JOURNALD}`;
    journal.#daemon = spawn("unshare", ["--mount", "sh", "-c", script], { stdio: "ignore" });
    // systemd-cat writes to the stdout socket, which is created after the socket for entries.
    await until("journald listens", () => existsSync(`/proc/${journal.#daemon?.pid}/root/run/systemd/journal/stdout`));
    return journal;
  }

  /** Writes lines through systemd-cat; `priority` as syslog names it. */
  write(identifier: string, priority: string, text: string): void {
    const args = [`--mount=/proc/${this.#daemon?.pid}/ns/mnt`, "systemd-cat", "-t", identifier, "-p", priority, "cat"];
    execFileSync("nsenter", args, { input: text, stdio: ["pipe", "ignore", "inherit"] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined) {
      const ended = new Promise((resolve) => daemon.once("exit", resolve));
      daemon.kill("SIGTERM");
      await ended;
    }
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Returns whether journald can run on this machine; skips the test otherwise. */
function canRunJournald(t: TestContext): boolean {
  const why = !existsSync(JOURNALD)
    ? "there is no systemd-journald"
    : spawnSync("unshare", ["--mount", "true"]).status !== 0
      ? "this user may make no mount namespace"
      : undefined;
  if (why !== undefined) t.skip(why);
  return why === undefined;
}

class Reader {
  readonly records: LogRecord[] = [];
  readonly said: string[] = [];
  room = true;
  #sources: LogSources | undefined;
  readonly #state: string;
  readonly #journalctl: string[];

  constructor(state: string, journalctl: string[]) {
    mkdirSync(state, { recursive: true });
    this.#state = state;
    this.#journalctl = journalctl;
  }

  async start(units: true | string[] = true): Promise<void> {
    this.#sources = await startLogSources({
      settings: { journald: units, files: [], rosout: false },
      state_directory: this.#state,
      clock: systemClock,
      log: pino({ level: "info" }, { write: (line) => void this.said.push((JSON.parse(line) as { msg: string }).msg) }),
      sink: { write: (record) => void this.records.push(record) },
      environment: { PATH: "/usr/bin:/bin" },
      spoolHasRoom: () => this.room,
      spool: { last_seq: 0, is_written: true, isAcknowledged: () => true, sync: () => {} },
      boot_id: "boot",
      recent_directory: this.#state,
      journalctl: this.#journalctl,
    });
  }

  async stop(): Promise<void> {
    await this.#sources?.stop();
    this.#sources = undefined;
  }

  of(identifier: string): string[] {
    return this.records
      .filter(({ source, fields }) => source === identifier || fields?.["identifier"] === identifier)
      .map(({ message }) => message);
  }
}

test("follows a real journal without losing or repeating an entry across restarts", TIMEOUT, async (t) => {
  if (!canRunJournald(t)) return;
  await using journal = await RealJournal.start();
  const reader = new Reader(join(journal.directory, "state"), ["journalctl", `--directory=${journal.directory}`]);
  await reader.start();
  journal.write("nav", "err", "first\n");
  journal.write("nav", "debug", "second\n");
  await until("two entries", () => reader.of("nav").length === 2);
  assert.deepEqual(
    reader.records.filter(({ message }) => /^(first|second)$/.test(message)).map(({ level }) => level),
    ["error", "debug"],
  );
  const [first] = reader.records.filter(({ message }) => message === "first");
  assert.ok(Math.abs(Number(first?.at) - Date.now()) < CLOCKS_APART_MS_MAX);
  await reader.stop();
  const while_off = Array.from({ length: 300 }, (_, i) => `while off ${i}`);
  journal.write("nav", "info", `${while_off.join("\n")}\n`);
  await reader.start();
  journal.write("nav", "info", `${"ä".repeat(5_000)}\n`);
  await until("all entries", () => reader.of("nav").length >= 303);
  assert.deepEqual(reader.of("nav"), ["first", "second", ...while_off, "ä".repeat(5_000)]);
  // While the spool is full, entries wait in the journal.
  reader.room = false;
  journal.write("nav", "info", "one more\n");
  await until("one more", () => reader.of("nav").length >= 304);
  const waiting = Array.from({ length: 5_000 }, (_, i) => `waiting ${i} ${"z".repeat(200)}`);
  journal.write("nav", "info", `${waiting.join("\n")}\n`);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert.ok(reader.of("nav").length < 304 + waiting.length, "all of it came although there was no room");
  reader.room = true;
  await until("what waited", () => reader.of("nav").length >= 304 + waiting.length);
  assert.deepEqual(reader.of("nav").slice(304), waiting);
  await reader.stop();
});

test("a missing journalctl is logged once and has no other effect", TIMEOUT, async () => {
  const base = mkdtempSync(join(tmpdir(), "roamfleet-nojournal-"));
  const reader = new Reader(base, ["/nowhere/journalctl"]);
  await reader.start();
  await until("it is said", () => reader.said.length > 0);
  assert.deepEqual(reader.said, ["journalctl is not installed: the journal is not read"]);
  await reader.stop();
  rmSync(base, { recursive: true });
});

test("reports only the size of an overlong line and ignores an incomplete last line", async () => {
  const stream = new PassThrough();
  const taken: (string | { bytes: number })[] = [];
  boundedLines(stream, 8, (line) => taken.push(line));
  for (const text of ["ääää\nää", "äää\n", "12345678\r\n", "a\nrest of a long line"]) stream.write(text);
  stream.end();
  await once(stream, "end");
  assert.deepEqual(taken, ["ääää", { bytes: 10 }, { bytes: 9 }, "a"]);
});

test("parses journal entries whose fields have any JSON type", () => {
  const line = (more: object): string =>
    JSON.stringify({ __CURSOR: "s=1;i=2", __REALTIME_TIMESTAMP: "1893456000123456", MESSAGE: "m", ...more });
  assert.deepEqual(readJournalEntry(line({ PRIORITY: "4", _SYSTEMD_UNIT: "nav.service", SYSLOG_IDENTIFIER: "nav", _PID: "7" })), {
    cursor: "s=1;i=2",
    unit: "nav.service",
    record: {
      level: "warn",
      source: "nav.service",
      message: "m",
      fields: { identifier: "nav", pid: 7 },
      at: new Date("2030-01-01T00:00:00.123Z"),
    },
  });
  assert.equal(readJournalEntry(line({ MESSAGE: [104, 105] }))?.record.message, "hi");
  assert.equal(readJournalEntry(line({ MESSAGE: ["a", "b"] }))?.record.message, "a");
  assert.equal(readJournalEntry(line({ MESSAGE: null }))?.record.message, "");
  assert.equal(readJournalEntry(line({ _TRANSPORT: "kernel", SYSLOG_IDENTIFIER: "kernel" }))?.record.source, "kernel");
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 6, 7, 99].map((priority) => readJournalEntry(line({ PRIORITY: String(priority) }))?.record.level),
    ["fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug", "info"],
  );
  for (const none of ["", "{", "{}", "[]"]) assert.equal(readJournalEntry(none), undefined);
});
