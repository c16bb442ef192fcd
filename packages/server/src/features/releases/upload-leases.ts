import { LRUCache } from "lru-cache";
import type { Plane } from "../../context.ts";
import { findLease, releaseLease, type Lease, renewLease, takeLease, type UploadName } from "./store-uploads.ts";

const RENEW_EVERY_MS = 1_500;
/** Maximum cached leases of other nodes. A lease evicted from the cache is observed again from the start. */
const SEEN_MAX = 1_000;

type LeasesPlane = Pick<Plane, "db" | "clock" | "id" | "node" | "log">;

/** What a worker on an upload provides for its lease. */
interface LeaseWorker {
  /** Monotonic time of the last received byte: only new bytes renew the lease. If undefined, the lease is renewed in any case. */
  movedAt: () => number | undefined;
  /** Called when another node has taken the lease. */
  lost: () => void;
}

/**
 * Leases on uploads, so that only one of the nodes that share a store works on an upload. The lease is in the upload's row. Its holder
 * renews it while bytes arrive. Another node takes it if it has observed no renewal for `quiet_ms` on its own clock, or the holder's
 * node is dead.
 */
export class UploadLeases {
  readonly #plane: LeasesPlane;
  readonly #quiet_ms: number;
  readonly #expiry: () => Date;
  /** Leases of other nodes, with the monotonic time of their last observed change. */
  readonly #seen = new LRUCache<string, Lease & { since: number }>({ max: SEEN_MAX });

  /** `expiry` returns the expiry time of an upload that receives a byte now. */
  constructor(plane: LeasesPlane, quiet_ms: number, expiry: () => Date) {
    this.#plane = plane;
    this.#quiet_ms = quiet_ms;
    this.#expiry = expiry;
  }

  /** Runs `work` under the upload's lease; without one if the upload does not exist. Returns undefined if another node has the lease. */
  async while<T>(upload: UploadName, worker: LeaseWorker, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    const { db, clock, id, log } = this.#plane;
    const holder = id("lease");
    const taken = await this.#take(upload, holder);
    if (taken === "busy") return undefined;
    if (taken === "no upload") return { value: await work() };
    let renewing: Promise<void> = Promise.resolve();
    let renewed_at = clock.monotonic();
    const renew = async (): Promise<void> => {
      if ((worker.movedAt() ?? Infinity) < renewed_at) return;
      renewed_at = clock.monotonic();
      if ((await renewLease(db, upload, holder, this.#expiry())) === 0) worker.lost();
    };
    // A failed renewal needs no handling: the next one follows, or another node takes the lease.
    const timer = clock.every(
      RENEW_EVERY_MS,
      () => (renewing = renew().catch((error: unknown) => log.warn({ err: error }, "could not renew the lease of an upload"))),
    );
    try {
      return { value: await work() };
    } finally {
      timer.cancel();
      await renewing;
      await releaseLease(db, upload, holder).catch((error: unknown) =>
        log.warn({ err: error }, "could not release the lease of an upload"),
      );
    }
  }

  async #take(upload: UploadName, holder: string): Promise<"taken" | "busy" | "no upload"> {
    const { db, clock, node } = this.#plane;
    const key = `${upload.org_id}/${upload.release_id}`;
    const seen = this.#seen.peek(key);
    const silent = seen !== undefined && clock.monotonic() - seen.since >= this.#quiet_ms ? seen : undefined;
    if ((await takeLease(db, upload, node, holder, silent)) > 0) {
      this.#seen.delete(key);
      return "taken";
    }
    const lease = await findLease(db, upload);
    if (lease === undefined) {
      this.#seen.delete(key);
      return "no upload";
    }
    if (seen?.holder !== lease.holder || seen.holder_beat !== lease.holder_beat)
      this.#seen.set(key, { ...lease, since: clock.monotonic() });
    return "busy";
  }
}
