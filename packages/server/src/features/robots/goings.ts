import type { Plane } from "../../context.ts";
import { inHalves } from "../../kernel/in-halves.ts";
import { LEASE_MS, type Session } from "../../link/index.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { announceOffline, disconnection } from "./disconnection.ts";
import { setOffline } from "./store-presence.ts";

/** Disconnects per transaction: few enough that others wait only briefly for the robots' rows. */
const BATCH_GOINGS_MAX = 1_000;
/** Concurrent transactions, each of another org: connections must remain for other work. */
const BATCHES_AT_ONCE = 3;
const RETRY_MS = 500;

export interface Going {
  session: Session;
  reason: string;
  /** False once a newer link exists: then there is nothing to write. */
  isNewest: () => boolean;
}

interface Waiting extends Going {
  since: number;
  resolve: () => void;
  reject: (error: unknown) => void;
}

type GoingsPlane = Pick<Plane, "db" | "db_errors" | "clock" | "id" | "node" | "log" | "bus">;

/**
 * Writes disconnects. A single one is written immediately; those that arrive during a write are written in one batch, so thousands of cut
 * links take a few transactions. If the database does not respond they are retried until this node's lease would expire; after that they
 * are left to the sweep. The number of links bounds the queue.
 */
export class Goings {
  readonly #plane: GoingsPlane;
  /** By org; the org that has waited longest is first. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #busy = new Set<string>();

  constructor(plane: GoingsPlane) {
    this.#plane = plane;
  }

  /** Resolves when the robot is offline in its row and timeline, has a newer link, or is left to the sweep. */
  record(going: Going): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { org_id } = going.session;
    const waiting = { ...going, since: this.#plane.clock.monotonic(), resolve, reject };
    const queue = this.#waiting.get(org_id);
    if (queue === undefined) this.#waiting.set(org_id, [waiting]);
    else queue.push(waiting);
    this.#begin();
    return promise;
  }

  #begin(): void {
    for (const [org_id, queue] of this.#waiting) {
      if (this.#busy.size === BATCHES_AT_ONCE) return;
      if (this.#busy.has(org_id)) continue;
      const batch = queue.splice(0, BATCH_GOINGS_MAX);
      // Remaining disconnects move behind those of orgs that already wait.
      this.#waiting.delete(org_id);
      if (queue.length > 0) this.#waiting.set(org_id, queue);
      this.#busy.add(org_id);
      void this.#perform(org_id, batch).then(() => {
        this.#busy.delete(org_id);
        this.#begin();
      });
    }
  }

  /** Never rejects. */
  async #perform(org_id: string, batch: readonly Waiting[]): Promise<void> {
    let left = await this.#attempt(org_id, batch);
    while (left.length > 0) {
      await this.#plane.clock.sleep(RETRY_MS);
      left = await this.#attempt(org_id, left);
    }
  }

  /** Returns those that must be retried. */
  async #attempt(org_id: string, batch: readonly Waiting[]): Promise<Waiting[]> {
    const { db_errors } = this.#plane;
    const passes = (error: unknown): boolean => db_errors.isOutage(error);
    const again: Waiting[] = [];
    const current = batch.filter(({ isNewest, resolve }) => {
      const is_newest = isNewest();
      if (!is_newest) resolve();
      return is_newest;
    });
    if (current.length === 0) return again;
    await inHalves(current, (some) => this.#write(org_id, some), {
      concernsAll: passes,
      failed: (some, error) => {
        if (passes(error)) again.push(...this.#inTime(org_id, some, error));
        else for (const { reject } of some) reject(error);
      },
    });
    return again;
  }

  /** Returns those that this node may retry. The others are left to the sweep, here or on another node. */
  #inTime(org_id: string, batch: readonly Waiting[], error: unknown): Waiting[] {
    const { clock, log } = this.#plane;
    const from = clock.monotonic() - LEASE_MS;
    const late = batch.filter(({ since }) => since < from);
    if (late.length === 0) return [...batch];
    log.warn({ err: error, org_id, robots: late.length }, "the database did not respond; disconnects are left to the sweep");
    for (const { resolve } of late) resolve();
    return batch.filter(({ since }) => since >= from);
  }

  async #write(org_id: string, goings: readonly Waiting[]): Promise<void> {
    const { db, node } = this.#plane;
    const by_robot = new Map(goings.map((going) => [going.session.robot_id, going]));
    await db.forOrg(org_id).transaction(async (tx) => {
      const gone = await setOffline(
        tx,
        node,
        Array.from(by_robot.keys(), (id) => ({ org_id, id })),
      );
      announceOffline(tx, this.#plane, gone);
      const entries = gone.flatMap((robot) => {
        const going = by_robot.get(robot.id);
        return going === undefined ? [] : [disconnection(robot, going.reason, { session_id: going.session.session_id })];
      });
      await recordTimelineMany(tx, this.#plane, entries);
    });
    for (const { resolve } of goings) resolve();
  }
}
