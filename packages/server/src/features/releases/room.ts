import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { httpError } from "../../kernel/fault.ts";
import { countAllPromised, countTaken, lockRoom } from "./store-uploads.ts";

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
    const { stored, promised } = await countTaken(tx, org_id);
    let of_org = promised;
    // The disk is one for all orgs. What is promised and not committed yet, its transaction holds the lock for.
    let of_all = await countAllPromised(db);
    for (const other of this.#promised.values()) {
      of_all += other.bytes;
      if (other.org_id === org_id) of_org += other.bytes;
    }
    if (stored + of_org + bytes > artifact_bytes_max) {
      throw httpError(
        413,
        `${bytes} bytes more would exceed the ${artifact_bytes_max} bytes that an org's artifacts may take; ${stored} are taken, ${of_org} promised to uploads under way`,
      );
    }
    for await (const { size } of blobs.listUploads()) of_all -= size;
    if ((await blobs.freeBytes()) - Math.max(0, of_all) - bytes < free_disk_bytes_min)
      throw httpError(413, `the server has no room for ${bytes} bytes more`);
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
