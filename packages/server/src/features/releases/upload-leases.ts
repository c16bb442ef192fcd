import { LRUCache } from "lru-cache";
import type { Plane } from "../../context.ts";
import { findLease, releaseLease, type Lease, renewLease, takeLease, type UploadName } from "./store-uploads.ts";

const RENEW_EVERY_MS = 1_500;
/** Maximum cached leases of other nodes. After an eviction, the lease must again be observed for the whole time before it can be taken. */
const SEEN_MAX = 1_000;

type LeasesPlane = Pick<Plane, "db" | "clock" | "id" | "node" | "log">;

/** How a lease observes the work on its upload. */
interface LeaseWorker {
  /**
   * Returns the monotonic time of the last received byte. The lease is renewed only if new bytes were received, or if this is undefined.
   */
  movedAt: () => number | undefined;
  /** Called when another node has taken the lease. */
  lost: () => void;
}

/**
 * Leases on uploads: of the nodes that share a store, only one at a time works on an upload. The lease is in the upload's row, and its
 * holder renews it while bytes arrive. Another node takes the lease if the holder's node is dead, or if it has observed no renewal for
 * `quiet_ms` by its own monotonic clock.
 */
export class UploadLeases {
  readonly #plane: LeasesPlane;
  readonly #quiet_ms: number;
  readonly #expiry: () => Date;
  /** Leases of other nodes, each with the monotonic time at which this node last saw it change. */
  readonly #seen = new LRUCache<string, Lease & { since: number }>({ max: SEEN_MAX });

  /**
   * `quiet_ms` is the time without renewal after which a lease can be taken. `expiry` returns the expiry time of an upload that receives a
   * byte now.
   */
  constructor(plane: LeasesPlane, quiet_ms: number, expiry: () => Date) {
    this.#plane = plane;
    this.#quiet_ms = quiet_ms;
    this.#expiry = expiry;
  }

  /**
   * Runs `work` while this node has the upload's lease. Returns undefined without running it if another node has the lease. If the upload
   * does not exist, runs `work` without a lease.
   */
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
    // Only log a failed renewal: the next renewal follows, or another node takes the lease.
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
