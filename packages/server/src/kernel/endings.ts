import type { KernelPlane } from "./kernel-plane.ts";

const SWEEP_ROWS_MAX = 500;
/** Ends that wait for the database to come back; beyond, they are told as lost when the server starts again. */
const UNTOLD_MAX = 10_000;
/** Of either kind, in one sweep: the others wait for the next one, and what is swept beside them waits for no thousands of failures. */
const FAILURES_PER_SWEEP_MAX = 50;
/** Ends that the log names, each once, until they are written; no more are named meanwhile. */
const LOGGED_MAX = 100;

/** What is open at a server that is gone. */
export interface Orphan {
  org_id: string;
  id: string;
}

const BEFORE_ALL: Orphan = { org_id: "", id: "" };

type EndingsPlane = Pick<KernelPlane, "log" | "db_errors">;

/**
 * Tells of things that were opened that they have ended, once for each: also when the database was away at that moment, and
 * when the server that held them is gone. `tell` must do nothing for what is known to have ended.
 */
export class Endings {
  readonly #plane: EndingsPlane;
  /** Of what, in a word for the log. */
  readonly #of: string;
  /** Ends that could not be written, those tried last behind the others. */
  readonly #untold = new Map<string, () => Promise<void>>();
  readonly #logged = new Set<string>();
  /** The orphan behind which the next sweep goes on. */
  #swept = BEFORE_ALL;

  constructor(plane: EndingsPlane, of: string) {
    this.#plane = plane;
    this.#of = of;
  }

  /** Never throws: what cannot be written now, the sweep tries again. */
  async tell(id: string, tell: () => Promise<void>): Promise<void> {
    try {
      await tell();
    } catch (error) {
      this.#log(id, error);
      if (this.#untold.size < UNTOLD_MAX) this.#untold.set(id, tell);
    }
  }

  /**
   * Tells of the ends that could not be written, then of what is open at a server that is gone, each by itself: one that cannot be
   * written is tried again by a later sweep. Throws only when nothing can be written now. `listOrphans` answers those behind `after`,
   * in the order of org and id.
   */
  async sweep<T extends Orphan>(
    listOrphans: (page: { after: Orphan; limit: number }) => Promise<readonly T[]>,
    tellLost: (orphan: T) => Promise<void>,
  ): Promise<void> {
    await this.#sweepUntold();
    let failures = 0;
    for (let found = SWEEP_ROWS_MAX; found === SWEEP_ROWS_MAX;) {
      const orphans = await listOrphans({ after: this.#swept, limit: SWEEP_ROWS_MAX });
      for (const orphan of orphans) {
        if (!(await this.#write(orphan.id, () => tellLost(orphan)))) failures += 1;
        this.#swept = { org_id: orphan.org_id, id: orphan.id };
        if (failures === FAILURES_PER_SWEEP_MAX) return;
      }
      found = orphans.length;
    }
    this.#swept = BEFORE_ALL;
    // Another server may have written what is named here.
    if (failures === 0 && this.#untold.size === 0) this.#logged.clear();
  }

  async #sweepUntold(): Promise<void> {
    let failures = 0;
    for (const [id, tell] of Array.from(this.#untold)) {
      const is_written = await this.#write(id, tell);
      this.#untold.delete(id);
      if (is_written) continue;
      this.#untold.set(id, tell);
      failures += 1;
      if (failures === FAILURES_PER_SWEEP_MAX) return;
    }
  }

  /** False when this end cannot be written. Throws when none can. */
  async #write(id: string, tell: () => Promise<void>): Promise<boolean> {
    const { db_errors } = this.#plane;
    try {
      await tell();
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
    this.#plane.log.error({ err: error, of: this.#of, id }, "an end could not be written: it is tried again");
  }
}
