import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Readable } from "node:stream";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { LogLevel } from "@roamfleet/protocol/link";
import { errorCode, errorText } from "../../disk/write-atomically.ts";
import { fieldsOf, parseObject } from "../../json.ts";
import { backoffMs } from "../../link/backoff.ts";
import { spawnChild } from "../../runtime/spawn-child.ts";
import type { LogRateLimiter } from "../log-rate-limiter.ts";
import type { Positions } from "./positions.ts";
import type { LogRecord } from "../../contract.ts";

/** Maximum size of a journal entry as JSON, in bytes. Entries may have any size; a larger one is dropped and reported. */
const ENTRY_BYTES_MAX = 256 * 1024;
const STOP_TIMEOUT_MS = 2_000;
const ROOM_LOOK_MS = 250;
const STDERR_CHARACTERS_MAX = 300;
/** Minimum run time of `journalctl` after which the backoff starts again from its shortest wait. */
const SETTLED_MS = 60_000;

interface JournalOptions {
  /** The systemd units whose entries are read; empty: all units. */
  units: readonly string[];
  /** The command that reads the journal, with its fixed arguments. Tests pass a command for another journal. */
  command: readonly string[];
  /** Environment variables of the child process, such as PATH. */
  environment: Readonly<Record<string, string>>;
  clock: Clock;
  log: Logger;
  limiter: LogRateLimiter;
  positions: Positions;
  spoolHasRoom: () => boolean;
}

interface JournalState {
  cursor?: string;
  /** Time in seconds since 1970. It is set if the journal was empty when reading began: then only later entries are read. */
  since?: number;
}

/** Follows the system's journal. A `journalctl` child prints the entries after the last one that was processed. */
export class Journal {
  readonly #options: JournalOptions;
  readonly #own_unit = ownUnit();
  #state: JournalState;
  #child: ChildProcess | undefined;
  #ended: Promise<void> | undefined;
  #again: Timer | undefined;
  #room: Timer | undefined;
  #failures = 0;
  #stopped = false;
  #said = "";

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#state = readState(options.positions.stored("journald"));
  }

  start(): void {
    const { positions, clock } = this.#options;
    positions.provide("journald", () => this.#state);
    if (this.#state.cursor === undefined && this.#state.since === undefined) {
      this.#state = { since: Math.floor(clock.now().getTime() / 1_000) };
      // Save the start time now. Then all later entries are read, even if the agent dies before it has read the first one.
      positions.save();
    }
    this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#again?.cancel();
    this.#room?.cancel();
    const child = this.#child;
    if (child === undefined) return;
    const late = this.#options.clock.setTimer(STOP_TIMEOUT_MS, () => child.kill("SIGKILL"));
    child.kill("SIGTERM");
    child.stdout?.destroy();
    await this.#ended;
    late.cancel();
  }

  #arguments(): string[] {
    const { cursor, since } = this.#state;
    return [
      "--output=json",
      `--output-fields=${JOURNAL_FIELDS.join(",")}`,
      "--all",
      "--follow",
      "--no-tail",
      "--quiet",
      ...this.#options.units.map((unit) => `--unit=${unit}`),
      cursor === undefined ? `--since=@${since ?? 0}` : `--after-cursor=${cursor}`,
    ];
  }

  #run(): void {
    const { command, environment, clock, log } = this.#options;
    const [program = "journalctl", ...args] = command;
    const started_at = clock.monotonic();
    const child = spawnChild(program, [...args, ...this.#arguments()], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    const { stdout, stderr } = child;
    // If no file descriptors are left, the child has no stdout and no stderr, and emits `error`.
    if (stdout) boundedLines(stdout, ENTRY_BYTES_MAX, (line) => this.#take(line));
    stderr?.setEncoding("utf8").on("data", (text: string) => this.#logStderr(text));
    this.#ended = new Promise((resolve) => {
      let has_ended = false;
      // A command that could not be started may emit both `error` and `close`.
      const end = (how: string, missing: boolean): void => {
        if (has_ended) return;
        has_ended = true;
        this.#child = undefined;
        resolve();
        if (this.#stopped) return;
        if (missing) return log.info({ command: program }, "journalctl is not installed: the journal is not read");
        this.#failures = clock.monotonic() - started_at > SETTLED_MS ? 0 : this.#failures + 1;
        log.warn({ how }, "journalctl ended unexpectedly");
        this.#again = clock.setTimer(backoffMs(clock, this.#failures), () => this.#run());
      };
      child.once("error", (error) => {
        if (child.pid === undefined) end(errorText(error), errorCode(error) === "ENOENT");
      });
      // `close` is emitted after all output has been read.
      child.once("close", (code, signal) => end(signal ?? `exit code ${code}`, false));
    });
  }

  #take(line: string | { bytes: number }): void {
    const { limiter, positions } = this.#options;
    if (typeof line !== "string") {
      limiter.write({
        level: "warn",
        source: "roamfleet",
        message: "1 record dropped: an entry of the journal is too long",
        fields: { gap: { count: 1 }, bytes: line.bytes },
      });
      return;
    }
    const entry = readJournalEntry(line);
    if (entry === undefined) return;
    this.#state = { cursor: entry.cursor };
    positions.moved();
    // Skip the entries of the agent's own stderr: the agent has already written them to the spool as its own log.
    if (entry.unit === undefined || entry.unit !== this.#own_unit) limiter.write(entry.record, entry.record.at.getTime());
    this.#waitForRoom();
  }

  /** Stops reading while the spool is full. The child then blocks on its pipe, and the entries wait in the journal. */
  #waitForRoom(): void {
    const { spoolHasRoom, clock } = this.#options;
    if (spoolHasRoom() || this.#room !== undefined) return;
    const stdout = this.#child?.stdout;
    stdout?.pause();
    const look = (): void => {
      if (spoolHasRoom()) {
        this.#room = undefined;
        stdout?.resume();
      } else this.#room = clock.setTimer(ROOM_LOOK_MS, look);
    };
    this.#room = clock.setTimer(ROOM_LOOK_MS, look);
  }

  /** Logs the stderr of journalctl, for example a missing permission to read other users' entries. Repeated text is logged once. */
  #logStderr(text: string): void {
    const said = text.trim().slice(0, STDERR_CHARACTERS_MAX);
    if (said === "" || said === this.#said) return;
    this.#said = said;
    this.#options.log.warn({ said }, "journalctl reported an error");
  }
}

function readState(value: unknown): JournalState {
  const { cursor, since } = fieldsOf(value);
  // Validate the cursor: it becomes a command-line argument.
  if (typeof cursor === "string" && /^[\w=;-]{1,500}$/.test(cursor)) return { cursor };
  return typeof since === "number" ? { since } : {};
}

/**
 * Returns the systemd service that this process belongs to, according to its control group. Returns undefined if the agent was started
 * by hand.
 */
function ownUnit(): string | undefined {
  try {
    return /\/([^/\s]+\.service)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

const NEWLINE = 0x0a;

/**
 * Passes on each complete line, or only its size in bytes if it is longer than the limit. Ignores text after the last newline:
 * journalctl prints that entry again, since the cursor is still before it.
 */
export function boundedLines(stream: Readable, bytes_max: number, take: (line: string | { bytes: number }) => void): void {
  let pieces: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const last = chunk.subarray(start, end);
      bytes += last.length;
      if (bytes > bytes_max) take({ bytes });
      else take((pieces.length === 0 ? last : Buffer.concat([...pieces, last])).toString("utf8"));
      pieces = [];
      bytes = 0;
      start = end + 1;
    }
    const rest = chunk.subarray(start);
    bytes += rest.length;
    if (bytes > bytes_max) pieces = [];
    else if (rest.length > 0) pieces.push(Buffer.from(rest));
  });
}

/** Log levels by syslog priority (the index): emerg, alert, crit, err, warning, notice, info, debug. */
const LEVELS: readonly LogLevel[] = ["fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug"];

/** The fields that are requested from the journal. The journal always returns the cursor and the time, too. */
const JOURNAL_FIELDS = [
  "MESSAGE",
  "PRIORITY",
  "SYSLOG_IDENTIFIER",
  "_SYSTEMD_UNIT",
  "_SYSTEMD_USER_UNIT",
  "_PID",
  "_COMM",
  "_TRANSPORT",
] as const;

interface JournalEntry {
  cursor: string;
  unit: string | undefined;
  record: LogRecord & { at: Date };
}

/** Parses a line of `journalctl --output=json`. Returns undefined if the line is invalid. */
export function readJournalEntry(line: string): JournalEntry | undefined {
  const entry = parseObject(line) ?? {};
  const cursor = entry["__CURSOR"];
  const microseconds = Number(entry["__REALTIME_TIMESTAMP"]);
  if (typeof cursor !== "string" || !Number.isFinite(microseconds)) return undefined;
  const unit = textOf(entry["_SYSTEMD_USER_UNIT"]) ?? textOf(entry["_SYSTEMD_UNIT"]);
  const identifier = textOf(entry["SYSLOG_IDENTIFIER"]);
  const pid = Number(textOf(entry["_PID"]));
  const kernel = entry["_TRANSPORT"] === "kernel" ? "kernel" : undefined;
  const source = unit ?? kernel ?? identifier ?? textOf(entry["_COMM"]) ?? "journal";
  return {
    cursor,
    unit,
    record: {
      level: LEVELS[Number(textOf(entry["PRIORITY"]) ?? 6)] ?? "info",
      source,
      message: textOf(entry["MESSAGE"]) ?? "",
      fields: { ...(identifier === undefined || identifier === source ? {} : { identifier }), ...(pid > 0 ? { pid } : {}) },
      at: new Date(microseconds / 1_000),
    },
  };
}

/**
 * Converts a field of a journal entry to text. The journal encodes text that is not UTF-8 as an array of bytes, and a repeated field
 * as an array of strings.
 */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  if (!Array.isArray(value) || value.length === 0) return undefined;
  if (value.every((byte) => typeof byte === "number")) return Buffer.from(value).toString("utf8");
  return textOf(value[0]);
}
