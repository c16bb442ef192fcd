import { CLOSE } from "@robofleet/protocol";
import type { LogRecord } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { wireTime } from "../../kernel/time.ts";
import { followLogs, latestLogs, type LatestLogs, type LiveBatch } from "../logs/index.ts";
import type { StreamContext } from "./kinds.ts";
import type { Viewer } from "./viewer.ts";

/** Records that a viewer is sent when it comes. */
const STORED_RECORDS = 100;
/** What may wait for a viewer that does not read; records beyond are dropped and told as a gap. */
export const VIEWER_BYTES_MAX = 1024 * 1024;
/** Once records are dropped, the next ones are too until no more than this waits: one large gap instead of many small ones. */
const RESUME_BYTES = VIEWER_BYTES_MAX / 2;
/** Live flushes that may come while the stored records are read. */
const WAITING_BATCHES_MAX = 256;

/** The log of a robot, from the last stored records on; of one that is not connected what is stored, and then its end. */
export async function startLogs({ plane }: StreamContext, viewer: Viewer): Promise<void> {
  await new LogStream(plane, viewer).start();
}

interface Gap {
  count: number;
  from_seq: number;
  to_seq: number;
}

/** Sends a viewer the last stored records and then each new one, without a hole and without sending one twice. */
export class LogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  /** Flushes that came before the stored records were sent; undefined from then on. */
  #waiting: LiveBatch[] | undefined = [];
  /** How far the log was stored when the stored records were read. */
  #stored: LatestLogs["position"];
  #gap: Gap | undefined;

  constructor(plane: Plane, viewer: Viewer) {
    this.#plane = plane;
    this.#viewer = viewer;
  }

  /** Resolves when the stored records are sent. The robot need not be connected. */
  async start(): Promise<void> {
    const { org_id } = this.#viewer.admitted.caller;
    const { robot_id } = this.#viewer.admitted;
    // First the live ones: what is stored from now on is heard of.
    const end = followLogs(this.#plane, org_id, robot_id, (batch) => this.#take(batch));
    this.#viewer.onEnd = end;
    if (!this.#viewer.open) return end();
    this.#viewer.socket.on("drain", () => this.#tellGap());
    const latest = await latestLogs(this.#plane.db.forOrg(org_id), org_id, robot_id, STORED_RECORDS);
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    this.#stored = latest.position;
    if (!this.#viewer.open) return;
    this.#send(
      latest.records.map(({ seq }) => seq),
      latest.records.map((record) => JSON.stringify(record)),
    );
    for (const batch of waiting) this.#sendBatch(batch);
  }

  #take(batch: LiveBatch): void {
    if (this.#waiting === undefined) return this.#sendBatch(batch);
    if (this.#waiting.length < WAITING_BATCHES_MAX) this.#waiting.push(batch);
    else this.#viewer.close(CLOSE.draining, "the stored log records take too long; try again");
  }

  #sendBatch(batch: LiveBatch): void {
    // A flush is heard of a moment after it is stored: it may be among the records that were read before.
    if (batch.outbox_id === this.#stored?.outbox_id && batch.last_seq <= this.#stored.seq) return;
    this.#send(
      batch.records.map(({ seq }) => seq),
      batch.lines,
    );
  }

  #send(seqs: readonly number[], lines: readonly string[]): void {
    if (!this.#viewer.open) return;
    const { ws, socket } = this.#viewer;
    // Together: one write to the kernel for a flush instead of one a record.
    socket.cork();
    for (const [i, line] of lines.entries()) {
      const seq = seqs[i] ?? 0;
      if (ws.bufferedAmount + line.length > (this.#gap === undefined ? VIEWER_BYTES_MAX : RESUME_BYTES)) this.#drop(seq);
      else {
        this.#tellGap();
        ws.send(line);
      }
    }
    socket.uncork();
  }

  #drop(seq: number): void {
    if (this.#gap === undefined) this.#gap = { count: 1, from_seq: seq, to_seq: seq };
    else {
      this.#gap.count += 1;
      this.#gap.to_seq = seq;
    }
  }

  /** In the place of the records that are missing; when all is quiet afterwards, as soon as the viewer has read. */
  #tellGap(): void {
    const gap = this.#gap;
    if (gap === undefined || !this.#viewer.open) return;
    this.#gap = undefined;
    const now = wireTime(this.#plane.clock.now());
    const record: LogRecord = {
      robot_id: this.#viewer.admitted.robot_id,
      seq: gap.to_seq,
      at: now,
      received_at: now,
      level: "warn",
      source: "robofleet",
      message: `${gap.count} records dropped`,
      fields: { gap },
    };
    this.#viewer.ws.send(JSON.stringify(record));
  }
}
