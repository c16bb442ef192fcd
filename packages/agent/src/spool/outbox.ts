import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Clock, idSource, type Timer } from "@roamfleet/clock";
import type { Report, ReportBody } from "@roamfleet/protocol/link";
import { errorText, makeDirectory, readJson, syncDirectory, writeAtomically, writeJson } from "../disk/write-atomically.ts";
import { boundedBody } from "./bounded-body.ts";
import { compactReports } from "./compact.ts";
import { openLine, sealLine } from "./sealed-line.ts";
import { listSegments, readWholeLines, segmentPath, SegmentWriter } from "./segment-file.ts";

/** Reports waiting for the server; past it superseded ones go first, then `append` throws. */
export const OUTBOX_REPORTS_MAX = 10_000;
/** Reports held in memory while the disk takes none. */
const OUTBOX_UNWRITTEN_MAX = 1_000;
const SEGMENT_BYTES_MAX = 256 * 1024;
/** Numbers that a segment may hold, written or not: after a restart numbers go on behind them. */
const SEGMENT_NUMBERS = 4_096;
const DISK_RETRY_MS = 5_000;

export class OutboxFullError extends Error {}

export interface OutboxOptions {
  directory: string;
  clock: Clock;
  /** Time to put on reports. */
  now: () => Date;
  /** The disk refused (reason) or takes writes again (undefined). */
  on_disk: (reason: string | undefined) => void;
}

interface Pending {
  report: Report;
  line: Buffer;
  written: boolean;
}

/**
 * The robot's durable reports, in order, until the server has them. Numbers grow over restarts but may skip: a restart
 * goes on behind every number that the last run can have used, so that none is used twice.
 */
export class Outbox {
  /** Lines that an earlier run wrote and that cannot be read any more. */
  damaged = 0;
  readonly #options: OutboxOptions;
  #id: string;
  #pending: Pending[] = [];
  #segments: { path: string; last: number }[] = [];
  #writer: SegmentWriter | undefined;
  #next = 1;
  #retry: Timer | undefined;
  #disk_refuses = false;

  /** Opens or makes the outbox in `directory`. Throws when the directory cannot be read or made. */
  constructor(options: OutboxOptions) {
    this.#options = options;
    makeDirectory(options.directory);
    this.#id = readId(this.#idFile(), () => (this.damaged += 1)) ?? this.#newId();
    this.#recover();
  }

  /** Names this outbox to the server; numbers count within it. */
  get outbox_id(): string {
    return this.#id;
  }

  get size(): number {
    return this.#pending.length;
  }

  /** Reports with a number over `seq`, oldest first. */
  after(seq: number, count_max: number): Report[] {
    const found: Report[] = [];
    for (const { report } of this.#pending) {
      if (report.seq <= seq) continue;
      found.push(report);
      if (found.length === count_max) break;
    }
    return found;
  }

  /** Gives the report its number and puts it on the disk before it returns (in memory if the disk refuses). Throws OutboxFullError. */
  append(body: ReportBody): Report {
    if (this.#pending.length >= OUTBOX_REPORTS_MAX) this.#compact();
    if (this.#pending.length >= OUTBOX_REPORTS_MAX) throw new OutboxFullError(`${OUTBOX_REPORTS_MAX} reports wait for the server`);
    if (this.#disk_refuses && this.#unwritten() >= OUTBOX_UNWRITTEN_MAX && !this.#writePending()) {
      throw new OutboxFullError(`the disk takes no reports and ${OUTBOX_UNWRITTEN_MAX} wait in memory`);
    }
    const report: Report = { type: "report", seq: this.#next, at: this.#options.now().toISOString(), body: boundedBody(body) };
    this.#next += 1;
    this.#pending.push({ report, line: Buffer.from(sealLine(JSON.stringify(report))), written: false });
    this.#writePending();
    return report;
  }

  /** Forgets reports up to `seq`: the server has them. */
  acknowledge(seq: number): void {
    this.#pending = this.#pending.filter(({ report }) => report.seq > seq);
    this.#segments = this.#segments.filter((segment) => {
      if (segment.last > seq) return true;
      rmSync(segment.path, { force: true });
      return false;
    });
  }

  /**
   * Takes what the server says it has when a link opens. If it has more than was ever numbered here, this is an old copy
   * of the disk: the outbox gets a new name, so that its numbers mean something again, and the link must open anew (false).
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

  /** Writes what memory holds alone; answers whether all is on the disk. */
  #writePending(): boolean {
    const unwritten = this.#pending.slice(this.#pending.length - this.#unwritten());
    const done = this.#tryDisk(() => {
      if (!this.#hasRoom()) this.#rotate(unwritten[0]?.report.seq);
      this.#writer?.appendDurably(Buffer.concat(unwritten.map(({ line }) => line)));
    });
    if (done) for (const pending of unwritten) pending.written = true;
    return done;
  }

  #hasRoom(): boolean {
    const writer = this.#writer;
    return writer?.usable === true && writer.bytes <= SEGMENT_BYTES_MAX && this.#next <= writer.first + SEGMENT_NUMBERS;
  }

  /** Starts the next segment; only then the one before may be removed, so that the newest name always tells the numbers used. */
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

  /** One file with all that is pending takes the place of the segments; a crash in between leaves reports twice, with one number. */
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
  const value = readJson(path, damaged);
  if (typeof value !== "object" || value === null || !("outbox_id" in value)) return undefined;
  return typeof value.outbox_id === "string" && value.outbox_id !== "" ? value.outbox_id : undefined;
}

/** Undefined for a line torn or overwritten by power loss. */
function parseReport(line: string): Report | undefined {
  try {
    const value = JSON.parse(openLine(line) ?? "null") as Partial<Report> | null;
    return value?.type === "report" && Number.isSafeInteger(value.seq) && typeof value.body === "object" ? (value as Report) : undefined;
  } catch {
    return undefined;
  }
}
