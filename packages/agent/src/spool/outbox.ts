import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Clock, idSource, type Timer } from "@roamfleet/clock";
import type { Report, ReportBody, ReportedStatus } from "@roamfleet/protocol/link";
import { errorText, makeDirectory, readJson, syncDirectory, writeAtomically, writeJson } from "../disk/write-atomically.ts";
import { fieldsOf, parseObject } from "../json.ts";
import { listSegments, openLine, readWholeLines, sealLine, segmentPath, SegmentWriter } from "./segment-file.ts";

/** Maximum number of reports in the outbox. When it is reached, superseded reports are dropped. If that makes no room, `append` throws. */
export const OUTBOX_REPORTS_MAX = 10_000;
/** Maximum reports in memory while writes to the disk fail. */
const OUTBOX_UNWRITTEN_MAX = 1_000;
const SEGMENT_BYTES_MAX = 256 * 1024;
/**
 * Maximum report numbers in one segment, including unwritten reports. After a restart, numbering continues beyond the last segment's
 * maximum.
 */
const SEGMENT_NUMBERS = 4_096;
const DISK_RETRY_MS = 5_000;

export class OutboxFullError extends Error {}

interface OutboxOptions {
  directory: string;
  clock: Clock;
  now: () => Date;
  /** Called with a reason when writes to the disk begin to fail, and with undefined when they succeed again. */
  on_disk: (reason: string | undefined) => void;
}

interface Pending {
  report: Report;
  line: Buffer;
  written: boolean;
}

/**
 * The robot's durable queue of reports for the server, in order. Numbers increase across restarts and may skip values. After a restart they
 * begin above every number that the last run may have used, so no number is used twice.
 */
export class Outbox {
  /** Number of unreadable lines that an earlier run left. */
  damaged = 0;
  readonly #options: OutboxOptions;
  #id: string;
  #pending: Pending[] = [];
  #segments: { path: string; last: number }[] = [];
  #writer: SegmentWriter | undefined;
  #next = 1;
  #retry: Timer | undefined;
  #disk_refuses = false;

  /** Opens or creates the outbox in `directory`. Throws if the directory cannot be read or created. */
  constructor(options: OutboxOptions) {
    this.#options = options;
    makeDirectory(options.directory);
    this.#id = readId(this.#idFile(), () => (this.damaged += 1)) ?? this.#newId();
    this.#recover();
  }

  /** Id of this outbox. Report numbers are unique within it. */
  get outbox_id(): string {
    return this.#id;
  }

  get size(): number {
    return this.#pending.length;
  }

  /** Returns reports with a number over `seq`, oldest first. */
  after(seq: number, count_max: number): Report[] {
    const found: Report[] = [];
    for (const { report } of this.#pending) {
      if (report.seq <= seq) continue;
      found.push(report);
      if (found.length === count_max) break;
    }
    return found;
  }

  /** Numbers a report and writes it to disk before it returns. If the disk fails, keeps the report in memory. Throws OutboxFullError. */
  append(body: ReportBody): Report {
    if (this.#pending.length >= OUTBOX_REPORTS_MAX) this.#compact();
    if (this.#pending.length >= OUTBOX_REPORTS_MAX)
      throw new OutboxFullError(`${OUTBOX_REPORTS_MAX} reports are waiting to be sent to the server`);
    if (this.#disk_refuses && this.#unwritten() >= OUTBOX_UNWRITTEN_MAX && !this.#writePending()) {
      throw new OutboxFullError(`writes to the disk fail and ${OUTBOX_UNWRITTEN_MAX} reports wait in memory`);
    }
    const report: Report = { type: "report", seq: this.#next, at: this.#options.now().toISOString(), body: boundedBody(body) };
    this.#next += 1;
    this.#pending.push({ report, line: Buffer.from(sealLine(JSON.stringify(report))), written: false });
    this.#writePending();
    return report;
  }

  /** Deletes the reports up to `seq`, since the server has them. */
  acknowledge(seq: number): void {
    this.#pending = this.#pending.filter(({ report }) => report.seq > seq);
    this.#segments = this.#segments.filter((segment) => {
      if (segment.last > seq) return true;
      rmSync(segment.path, { force: true });
      return false;
    });
  }

  /**
   * Applies the server's acknowledgement when a link opens. Returns false if the acknowledged number is higher than any used here: then
   * this disk is an old copy. The outbox gets a new id, so that its numbers are unique again, and the caller must reopen the link.
   */
  reconcile(acked_seq: number): boolean {
    if (acked_seq < this.#next) {
      this.acknowledge(acked_seq);
      return true;
    }
    this.#id = this.#newId();
    return false;
  }

  close(): void {
    this.#retry?.cancel();
    if (this.#unwritten() > 0) this.#writePending();
    this.#retry?.cancel();
    this.#writer?.close();
    this.#writer = undefined;
  }

  #idFile(): string {
    return join(this.#options.directory, "outbox.json");
  }

  #newId(): string {
    const outbox_id = idSource(this.#options.clock)("outbox");
    writeJson(this.#idFile(), { outbox_id });
    return outbox_id;
  }

  #recover(): void {
    const reports = new Map<number, Pending>();
    const empty: string[] = [];
    for (const segment of listSegments(this.#options.directory)) {
      this.#next = Math.max(this.#next, segment.first + SEGMENT_NUMBERS);
      let last = 0;
      for (const line of readWholeLines(segment.path)) {
        const report = parseReport(line);
        if (report === undefined) {
          this.damaged += 1;
          continue;
        }
        reports.set(report.seq, { report, line: Buffer.from(`${line}\n`), written: true });
        last = Math.max(last, report.seq);
      }
      this.#next = Math.max(this.#next, last + 1);
      if (last === 0) empty.push(segment.path);
      else this.#segments.push({ path: segment.path, last });
    }
    this.#pending = [...reports.values()].sort((a, b) => a.report.seq - b.report.seq);
    const started = this.#tryDisk(() => this.#rotate());
    if (started) for (const path of empty) rmSync(path, { force: true });
  }

  #unwritten(): number {
    let count = 0;
    for (let i = this.#pending.length - 1; i >= 0 && !this.#pending[i]!.written; i -= 1) count += 1;
    return count;
  }

  /** Writes the reports to disk that are only in memory. Returns whether all reports are on disk. */
  #writePending(): boolean {
    const unwritten = this.#pending.slice(this.#pending.length - this.#unwritten());
    const done = this.#tryDisk(() => {
      if (!this.#hasRoom()) this.#rotate(unwritten[0]?.report.seq);
      this.#writer?.append(Buffer.concat(unwritten.map(({ line }) => line)), true);
    });
    if (done) for (const pending of unwritten) pending.written = true;
    return done;
  }

  #hasRoom(): boolean {
    const writer = this.#writer;
    return writer?.usable === true && writer.bytes <= SEGMENT_BYTES_MAX && this.#next <= writer.first + SEGMENT_NUMBERS;
  }

  /** Starts the next segment. Keeps the previous one until then, since the newest segment's name records which numbers are in use. */
  #rotate(first = this.#next): void {
    const before = this.#writer;
    this.#writer = new SegmentWriter(this.#options.directory, first);
    before?.close();
    if (before !== undefined && before.path !== this.#writer.path) this.#segments.push({ path: before.path, last: first - 1 });
  }

  #compact(): void {
    const kept = new Set(compactReports(this.#pending.map(({ report }) => report)));
    if (kept.size === this.#pending.length) return;
    this.#pending = this.#pending.filter(({ report }) => kept.has(report));
    this.#tryDisk(() => this.#rewrite());
  }

  /**
   * Replaces all segments by one file with all pending reports. After a crash in between, some reports exist twice with the same number.
   */
  #rewrite(): void {
    const { directory } = this.#options;
    const first = this.#pending[0]?.report.seq ?? this.#next;
    const last = this.#pending.at(-1)?.report.seq ?? first;
    const path = segmentPath(directory, first, last);
    writeAtomically(path, Buffer.concat(this.#pending.map(({ line }) => line)));
    for (const pending of this.#pending) pending.written = true;
    const old = [...this.#segments.map((segment) => segment.path), ...(this.#writer === undefined ? [] : [this.#writer.path])];
    this.#writer?.close();
    this.#writer = new SegmentWriter(directory, this.#next);
    for (const one of old) if (one !== path && one !== this.#writer.path) rmSync(one, { force: true });
    syncDirectory(directory);
    this.#segments = [{ path, last }];
  }

  #tryDisk(work: () => void): boolean {
    try {
      work();
    } catch (error) {
      if (!this.#disk_refuses) this.#options.on_disk(errorText(error));
      this.#disk_refuses = true;
      this.#retry?.cancel();
      this.#retry = this.#options.clock.setTimer(DISK_RETRY_MS, () => this.#writePending());
      return false;
    }
    if (this.#disk_refuses) this.#options.on_disk(undefined);
    this.#disk_refuses = false;
    this.#retry?.cancel();
    return true;
  }
}

function readId(path: string, damaged: () => void): string | undefined {
  const { outbox_id } = fieldsOf(readJson(path, damaged));
  return typeof outbox_id === "string" && outbox_id !== "" ? outbox_id : undefined;
}

/** Parses a line of the outbox. Returns undefined if a power loss has torn or damaged it. */
function parseReport(line: string): Report | undefined {
  const value = parseObject(openLine(line) ?? "") as Partial<Report> | undefined;
  return value?.type === "report" && Number.isSafeInteger(value.seq) && typeof value.body === "object" ? (value as Report) : undefined;
}

const FINAL: readonly ReportedStatus[] = ["applied", "rolled_back", "failed", "cancelled"];

/** Drops reports that a later report supersedes, but never the final status of a target. Keeps the order. */
function compactReports(reports: Report[]): Report[] {
  const newest = new Map<string, Report>();
  for (const report of reports) newest.set(subjectOf(report.body), report);
  return reports.filter((report) => isFinal(report.body) || newest.get(subjectOf(report.body)) === report);
}

const isFinal = (body: ReportBody): boolean => body.kind === "target" && FINAL.includes(body.status);

function subjectOf(body: ReportBody): string {
  switch (body.kind) {
    case "target":
      return `target ${body.target_id} ${body.attempt}`;
    case "app":
      return `app ${body.app}`;
    case "config":
      return `config ${body.namespace}`;
    case "observed":
      return "observed";
  }
}

/**
 * Maximum characters of a report's message in the protocol. A longer message would be refused each time it is sent, and would block all
 * later reports.
 */
const MESSAGE_CHARACTERS_MAX = 4_000;
const REASON_CHARACTERS_MAX = 100;

/** Returns the report with texts truncated to the server's limits. */
function boundedBody(body: ReportBody): ReportBody {
  if (body.kind !== "target") return body;
  const bounded = { ...body };
  if (bounded.message !== undefined) bounded.message = cut(bounded.message, MESSAGE_CHARACTERS_MAX);
  if (bounded.reason !== undefined) bounded.reason = cut(bounded.reason, REASON_CHARACTERS_MAX);
  return bounded;
}

const cut = (text: string, characters_max: number): string => text.slice(0, characters_max).toWellFormed();
