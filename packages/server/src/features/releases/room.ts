import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { httpError } from "../../kernel/fault.ts";
import { countAllPromised, countTaken, lockRoom } from "./store-uploads.ts";

/** As operators write it in settings, with what it is for people. */
function sizeText(bytes: number): string {
  const unit = UNITS.find(([, size]) => bytes >= size);
  return unit === undefined ? `${bytes} bytes` : `${bytes} bytes (${(bytes / unit[1]).toFixed(1)} ${unit[0]})`;
}

const sumBytes = (promises: readonly { bytes: number }[]): number => promises.reduce((sum, { bytes }) => sum + bytes, 0);

const UNITS = [
  ["TiB", 1024 ** 4],
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
] as const;

/**
 * Room for artifacts: what an org may have, and what the disk has. Uploads promise their size before their first byte, and
 * who asks is asked one after the other, so that together they take no more than there is.
 */
export class Room {
  readonly #plane: Plane;
  /** Uploads in one request under way on this node; resumable ones are rows. */
  readonly #promised = new Map<symbol, { org_id: string; bytes: number }>();

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /** Throws 413 when there is no room. Until `tx` ends nobody else is told that there is. */
  async require(tx: Db, org_id: string, bytes: number): Promise<void> {
    const { db, blobs, settings } = this.#plane;
    const { artifact_bytes_max, free_disk_bytes_min } = settings.limits;
    await lockRoom(tx);
    const { stored, deleted, promised } = await countTaken(tx, org_id);
    const others = [...this.#promised.values()];
    const of_org = promised + sumBytes(others.filter((other) => other.org_id === org_id));
    if (stored + of_org + bytes > artifact_bytes_max) {
      throw httpError(
        413,
        `${sizeText(bytes)} more would exceed the ${sizeText(artifact_bytes_max)} (artifact_bytes_max) that the artifacts of an org may take: ${sizeText(stored)} are stored${deleted === 0 ? "" : `, ${sizeText(deleted)} of them of releases that were deleted less than a day ago`}, ${sizeText(of_org)} promised to uploads under way`,
      );
    }
    // A store without an end needs no list of what is in it, which would be read under the lock.
    if ((await blobs.freeBytes()) === Infinity) return;
    // The disk is one for all orgs. What is promised and not committed yet, its transaction holds the lock for.
    let of_all = (await countAllPromised(db)) + sumBytes(others);
    for await (const { size } of blobs.listUploads()) of_all -= size;
    // After the list: what comes meanwhile counts twice rather than not at all.
    if ((await blobs.freeBytes()) - Math.max(0, of_all) - bytes < free_disk_bytes_min)
      throw httpError(413, `the server's disk has no room for ${sizeText(bytes)} more: free_disk_bytes_min of it stay free`);
  }

  /**
   * Runs `work` with room promised to it. Throws 413 before it begins when there is none. `work` calls `taken` in the
   * transaction that writes down what it took, as the last thing: at no moment are the bytes counted twice or not at all.
   */
  async with<T>(org_id: string, bytes: number, work: (taken: (tx: Db) => Promise<void>) => Promise<T>): Promise<T> {
    const promise = Symbol();
    try {
      await this.#plane.db.forOrg(org_id).transaction(async (tx) => {
        this.#promised.delete(promise);
        await this.require(tx, org_id, bytes);
        this.#promised.set(promise, { org_id, bytes });
      });
      return await work(async (tx) => {
        await lockRoom(tx);
        this.#promised.delete(promise);
      });
    } finally {
      this.#promised.delete(promise);
    }
  }
}
