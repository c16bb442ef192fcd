import type { KernelPlane } from "./kernel-plane.ts";

const SWEEP_ROWS_MAX = 500;
/** Ends that wait for the database to come back; beyond, they are told as lost when the server starts again. */
const UNTOLD_MAX = 10_000;

/**
 * Tells of things that were opened that they have ended, once for each: also when the database was away at that moment, and
 * when the server that held them is gone. `tell` must do nothing for what is known to have ended.
 */
export class Endings {
  readonly #plane: Pick<KernelPlane, "log">;
  /** Of what, in a word for the log. */
  readonly #of: string;
  /** Ends that the database was not there for. */
  readonly #untold = new Map<string, () => Promise<void>>();

  constructor(plane: Pick<KernelPlane, "log">, of: string) {
    this.#plane = plane;
    this.#of = of;
  }

  /** Never throws: what cannot be written now, the sweep tries again. */
  async tell(id: string, tell: () => Promise<void>): Promise<void> {
    try {
      await tell();
    } catch (error) {
      this.#plane.log.error({ err: error, of: this.#of, id }, "an end could not be written");
      if (this.#untold.size < UNTOLD_MAX) this.#untold.set(id, tell);
    }
  }

  /** Tells of the ends that could not be written, then of what is open at a server that is gone. */
  async sweep<T>(listOrphans: (rows_max: number) => Promise<readonly T[]>, tellLost: (orphan: T) => Promise<void>): Promise<void> {
    for (const [id, tell] of this.#untold) {
      await tell();
      this.#untold.delete(id);
    }
    for (let found = SWEEP_ROWS_MAX; found === SWEEP_ROWS_MAX;) {
      const orphans = await listOrphans(SWEEP_ROWS_MAX);
      for (const orphan of orphans) await tellLost(orphan);
      found = orphans.length;
    }
  }
}
