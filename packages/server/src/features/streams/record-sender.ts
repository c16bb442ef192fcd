import type { LogRecord } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { wireTime } from "../../kernel/time.ts";
import type { Viewer } from "./viewer.ts";

/** Maximum bytes buffered for a viewer that does not read. If there are more, records are dropped and their number is reported as a gap. */
const VIEWER_BYTES_MAX = 1024 * 1024;
/**
 * After a drop, further records are dropped until the buffer has shrunk to this size. So one large gap is reported instead of many small
 * ones.
 */
const RESUME_BYTES = VIEWER_BYTES_MAX / 2;

interface Gap {
  count: number;
  from_seq: number;
  to_seq: number;
}

/** Returns a record that reports to the viewer which records it did not get. */
export const gapRecord = (robot_id: string, seq: number, now: string, message: string, gap: object): LogRecord => ({
  robot_id,
  seq,
  at: now,
  received_at: now,
  level: "warn",
  source: "roamfleet",
  message,
  fields: { gap },
});

/** Counts dropped records by robot, until they are reported. */
export class Gaps {
  readonly #gaps = new Map<string, Gap>();

  get none(): boolean {
    return this.#gaps.size === 0;
  }

  add(robot_id: string, seq: number): void {
    const gap = this.#gaps.get(robot_id);
    if (gap === undefined) this.#gaps.set(robot_id, { count: 1, from_seq: seq, to_seq: seq });
    else {
      gap.count += 1;
      gap.to_seq = seq;
    }
  }

  /** Returns one gap record for each robot with dropped records, and resets the counts. */
  take(now: string): LogRecord[] {
    const records = Array.from(this.#gaps, ([robot_id, gap]) => gapRecord(robot_id, gap.to_seq, now, `${gap.count} records dropped`, gap));
    this.#gaps.clear();
    return records;
  }
}

/**
 * Sends records to a viewer without waiting for it. If the viewer is slow, drops records, and reports their number in one gap record per
 * robot.
 */
export class RecordSender {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #gaps = new Gaps();

  constructor(plane: Plane, viewer: Viewer) {
    this.#plane = plane;
    this.#viewer = viewer;
    viewer.socket.on("drain", () => this.#sendGaps());
  }

  /** Whether records were dropped and not yet reported in a gap record. */
  get has_gaps(): boolean {
    return !this.#gaps.none;
  }

  /** Sends records as JSON. `lines` has one record for each number in `seqs`. */
  send(robot_id: string, seqs: readonly number[], lines: readonly string[]): void {
    if (!this.#viewer.open) return;
    const { ws, socket } = this.#viewer;
    // Cork the socket, so that the kernel gets one write for each flush instead of one for each record.
    socket.cork();
    for (const [i, line] of lines.entries()) {
      const seq = seqs[i] ?? 0;
      if (ws.bufferedAmount + line.length > (this.#gaps.none ? VIEWER_BYTES_MAX : RESUME_BYTES)) this.drop(robot_id, seq);
      else {
        this.#sendGaps();
        ws.send(line);
      }
    }
    socket.uncork();
  }

  /** Drops a record. A gap record reports it before the next sent record, or as soon as the viewer reads again. */
  drop(robot_id: string, seq: number): void {
    this.#gaps.add(robot_id, seq);
  }

  #sendGaps(): void {
    if (this.#gaps.none || !this.#viewer.open) return;
    for (const record of this.#gaps.take(wireTime(this.#plane.clock.now()))) this.#viewer.ws.send(JSON.stringify(record));
  }
}
