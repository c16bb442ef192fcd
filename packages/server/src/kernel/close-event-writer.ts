import type { KernelPlane } from "./kernel-plane.ts";

const SWEEP_ROWS_MAX = 500;
/** Maximum close events that wait for the database. Events beyond this limit are written as lost when the server starts again. */
const PENDING_MAX = 10_000;
/**
 * Maximum failed writes per sweep, of pending events and of orphans separately. The rest waits for the next sweep, so that thousands of
 * failures do not delay the caller's other sweeps.
 */
const FAILURES_PER_SWEEP_MAX = 50;
/** Maximum streams or shells whose failed writes are logged. Each is logged once until its close event is written. */
const LOGGED_MAX = 100;

/** A stream or shell that was open on a server that has died. The close event of the stream or shell is missing. */
export interface Orphan {
  org_id: string;
  id: string;
}

const BEFORE_ALL: Orphan = { org_id: "", id: "" };

/**
 * Writes the close event of each stream or shell exactly once, even if the database was unreachable at that time or the server has died.
 * `write` must do nothing if the event is already written.
 */
export class CloseEventWriter {
  readonly #plane: Pick<KernelPlane, "log" | "db_errors">;
  /** "stream" or "shell", for the log. */
  readonly #of: string;
  /** Close events that could not be written, in the order of their last attempt. */
  readonly #pending = new Map<string, () => Promise<void>>();
  readonly #logged = new Set<string>();
  /** The orphan after which the next sweep continues. */
  #swept = BEFORE_ALL;

  constructor(plane: Pick<KernelPlane, "log" | "db_errors">, of: string) {
    this.#plane = plane;
    this.#of = of;
  }

  /** Writes a close event. Never throws: the sweep retries a failed write. */
  async write(id: string, write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      this.#log(id, error);
      if (this.#pending.size < PENDING_MAX) this.#pending.set(id, write);
    }
  }

  /**
   * Retries the close events that could not be written, then writes those of orphans. Each is written separately, and a later sweep
   * retries those that fail. Throws only if the database is unavailable. `listOrphans` returns orphans after `after`, ordered by org and id.
   */
  async sweep<T extends Orphan>(
    listOrphans: (page: { after: Orphan; limit: number }) => Promise<readonly T[]>,
    writeLost: (orphan: T) => Promise<void>,
  ): Promise<void> {
    await this.#sweepPending();
    let failures = 0;
    for (let found = SWEEP_ROWS_MAX; found === SWEEP_ROWS_MAX;) {
      const orphans = await listOrphans({ after: this.#swept, limit: SWEEP_ROWS_MAX });
      for (const orphan of orphans) {
        if (!(await this.#write(orphan.id, () => writeLost(orphan)))) failures += 1;
        this.#swept = { org_id: orphan.org_id, id: orphan.id };
        if (failures === FAILURES_PER_SWEEP_MAX) return;
      }
      found = orphans.length;
    }
    this.#swept = BEFORE_ALL;
    // No write is left to retry, so another server has written the close events of the ids that are still in `#logged`.
    if (failures === 0 && this.#pending.size === 0) this.#logged.clear();
  }

  async #sweepPending(): Promise<void> {
    let failures = 0;
    for (const [id, write] of Array.from(this.#pending)) {
      const is_written = await this.#write(id, write);
      this.#pending.delete(id);
      if (is_written) continue;
      this.#pending.set(id, write);
      failures += 1;
      if (failures === FAILURES_PER_SWEEP_MAX) return;
    }
  }

  /** Returns false if this close event cannot be written. Throws if none can (an outage). */
  async #write(id: string, write: () => Promise<void>): Promise<boolean> {
    const { db_errors } = this.#plane;
    try {
      await write();
    } catch (error) {
      if (db_errors.isOutage(error)) throw error;
      this.#log(id, error);
      return false;
    }
    this.#logged.delete(id);
    return true;
  }

  #log(id: string, error: unknown): void {
    if (this.#logged.has(id) || this.#logged.size >= LOGGED_MAX) return;
    this.#logged.add(id);
    this.#plane.log.error({ err: error, of: this.#of, id }, "a close event could not be written, will retry");
  }
}
