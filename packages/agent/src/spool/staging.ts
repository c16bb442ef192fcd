import { rmSync, statSync } from "node:fs";
import type { Clock, Timer } from "@roamfleet/clock";
import { makeDirectory } from "../disk/write-atomically.ts";
import { type LogLine, StagedPart } from "./log-part.ts";
import { lastSeqOf, listSegments, sealLine, SegmentWriter } from "./segment-file.ts";

/** Maximum time that records wait in memory for the server's acknowledgement. Then they are written to the disk. */
export const STAGED_MS_MAX = 30_000;
/** Maximum bytes of records in memory. At this limit, all of them are moved to the disk. */
export const STAGED_BYTES_MAX = 1024 * 1024;

interface StagingOptions {
  /** A directory in memory (tmpfs) for this agent only. */
  directory: string;
  clock: Clock;
  /** Called when records may have waited for STAGED_MS_MAX. It must move the parts that began before `before` to the disk. */
  overdue: (before: number) => void;
}

/** Returns undefined if the directory cannot be used. Records are then written to the disk. */
export function openStaging(options: StagingOptions): Staging | undefined {
  try {
    return new Staging(options);
  } catch {
    return undefined;
  }
}

/**
 * Files in memory for records that the server probably acknowledges within seconds, so that they are never written to the flash. They survive
 * `kill -9` of the agent, as files on the disk do. A power loss loses them, as it loses what the kernel has not written to the disk yet.
 */
export class Staging {
  readonly #options: StagingOptions;
  #writer: SegmentWriter | undefined;
  #part: StagedPart | undefined;
  readonly #began = new Map<StagedPart, number>();
  #timer: Timer | undefined;

  /** Throws if the directory cannot be created. */
  constructor(options: StagingOptions) {
    this.#options = options;
    makeDirectory(options.directory);
  }

  /** Returns the parts that an earlier run left, oldest first. `numbers`: maximum record numbers of one segment. */
  recover(numbers: number): StagedPart[] {
    const parts: StagedPart[] = [];
    for (const { path, first } of listSegments(this.#options.directory)) {
      const last = lastSeqOf(path, first, numbers);
      if (last < first) rmSync(path, { force: true });
      else parts.push(this.#watch(new StagedPart({ path, first, last, bytes: statSync(path).size })));
    }
    return parts;
  }

  /** Writes lines. Returns the part if it is a new one; undefined if the lines were added to the newest part. Throws if the memory is full. */
  append(lines: readonly LogLine[]): StagedPart | undefined {
    const first = lines[0]!.seq;
    const is_new = this.#part === undefined || this.#writer?.usable !== true || this.#part.last !== first - 1;
    if (is_new) {
      this.rotate();
      this.#writer = new SegmentWriter(this.#options.directory, first, false);
      this.#part = this.#watch(new StagedPart({ path: this.#writer.path, first, last: first - 1, bytes: 0 }));
    }
    this.#writer!.append(Buffer.from(lines.map(({ text }) => sealLine(text)).join("")));
    this.#part!.last = lines.at(-1)!.seq;
    this.#part!.bytes = this.#writer!.bytes;
    return is_new ? this.#part : undefined;
  }

  /** Closes the current part. Later records go to a new part, so the closed one can be deleted as soon as its records are acknowledged. */
  rotate(): void {
    this.#writer?.close();
    this.#writer = undefined;
    this.#part = undefined;
  }

  /** Must be called after a part was removed. */
  removed(part: StagedPart): void {
    if (part === this.#part) this.rotate();
    this.#began.delete(part);
    if (this.#began.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Returns whether a part began before `before`, on the monotonic clock. */
  isOlder(part: StagedPart, before: number): boolean {
    return (this.#began.get(part) ?? -Infinity) <= before;
  }

  close(): void {
    this.rotate();
    this.#timer?.cancel();
  }

  #watch(part: StagedPart): StagedPart {
    this.#began.set(part, this.#options.clock.monotonic());
    this.#timer ??= this.#options.clock.every(STAGED_MS_MAX / 2, () => {
      this.#options.overdue(this.#options.clock.monotonic() - STAGED_MS_MAX / 2);
    });
    return part;
  }
}
