import type { LogRecord } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { wireTime } from "../../kernel/time.ts";
import type { Viewer } from "./viewer.ts";

/** What may wait for a viewer that does not read; records beyond are dropped and told as a gap. */
export const VIEWER_BYTES_MAX = 1024 * 1024;
/** Once records are dropped, the next ones are too until no more than this waits: one large gap instead of many small ones. */
const RESUME_BYTES = VIEWER_BYTES_MAX / 2;

interface Gap {
  count: number;
  from_seq: number;
  to_seq: number;
}

/** Records that were left out, robot by robot, until somebody is told. */
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

  /** Takes all of them, as records that stand in the place of those left out. */
  take(now: string): LogRecord[] {
    const records = Array.from(this.#gaps, ([robot_id, gap]): LogRecord => ({
      robot_id,
      seq: gap.to_seq,
      at: now,
      received_at: now,
      level: "warn",
      source: "roamfleet",
      message: `${gap.count} records dropped`,
      fields: { gap },
    }));
    this.#gaps.clear();
    return records;
  }
}

/** Sends records to a viewer as they come, and in the place of those that it was too slow for how many they were, robot by robot. */
export class RecordSender {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #gaps = new Gaps();

  constructor(plane: Plane, viewer: Viewer) {
    this.#plane = plane;
    this.#viewer = viewer;
    viewer.socket.on("drain", () => this.#tellGaps());
  }

  /** `lines` are the records of these numbers, as JSON. */
  send(robot_id: string, seqs: readonly number[], lines: readonly string[]): void {
    if (!this.#viewer.open) return;
    const { ws, socket } = this.#viewer;
    // Together: one write to the kernel for a flush instead of one a record.
    socket.cork();
    for (const [i, line] of lines.entries()) {
      const seq = seqs[i] ?? 0;
      if (ws.bufferedAmount + line.length > (this.#gaps.none ? VIEWER_BYTES_MAX : RESUME_BYTES)) this.drop(robot_id, seq);
      else {
        this.#tellGaps();
        ws.send(line);
      }
    }
    socket.uncork();
  }

  /** Leaves a record out; it is told of with the next that is sent, or as soon as the viewer has read. */
  drop(robot_id: string, seq: number): void {
    this.#gaps.add(robot_id, seq);
  }

  #tellGaps(): void {
    if (this.#gaps.none || !this.#viewer.open) return;
    for (const record of this.#gaps.take(wireTime(this.#plane.clock.now()))) this.#viewer.ws.send(JSON.stringify(record));
  }
}
