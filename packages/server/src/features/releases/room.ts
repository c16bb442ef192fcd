import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { diskFull, type Fault, httpError } from "../../kernel/fault.ts";
import { countTaken, hasOtherOrgs, listOpenUploads, lockRoom } from "./store-uploads.ts";

/** As operators write it in settings, with what it is for people. */
function sizeText(bytes: number): string {
  const unit = UNITS.find(([, size]) => bytes >= size);
  return unit === undefined ? `${bytes} bytes` : `${bytes} bytes (${(bytes / unit[1]).toFixed(1)} ${unit[0]})`;
}

const UNITS = [
  ["TiB", 1024 ** 4],
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
] as const;

/** What the open uploads of one org keep free on the disk for themselves at the expense of other orgs, however much they announced. */
const RESERVED_BYTES_MAX = 64 * 1024 ** 2;
/** And those of all other orgs keep at most this part of what is free. */
const RESERVED_PART_MAX = 0.5;
/** After so many bytes of an upload the disk is looked at again. */
const LOOK_EVERY_BYTES = 16 * 1024 ** 2;
const RETRY_SECONDS = "60";

/** An upload that is not complete. */
interface Open {
  org_id: string;
  /** bytes announced */
  size: number;
  /** bytes on the disk */
  received: number;
}

const sumOf = (uploads: readonly Open[], read: (upload: Open) => number): number =>
  uploads.reduce((sum, upload) => sum + Math.max(0, read(upload)), 0);
const missing = ({ size, received }: Open): number => size - received;

/** Watches the disk while bytes of an upload arrive: `signal` aborts when they would take what stays free. */
export class DiskWatch {
  readonly #plane: Pick<Plane, "blobs" | "settings">;
  readonly #full = new AbortController();
  #unlooked = 0;

  constructor(plane: Pick<Plane, "blobs" | "settings">) {
    this.#plane = plane;
  }

  get signal(): AbortSignal {
    return this.#full.signal;
  }

  /** Aborts the signal when the disk is full. */
  async look(): Promise<void> {
    const { blobs, settings } = this.#plane;
    if ((await blobs.freeBytes()) < settings.limits.free_disk_bytes_min) this.#full.abort();
  }

  onBytes(bytes: number): void {
    this.#unlooked += bytes;
    if (this.#unlooked < LOOK_EVERY_BYTES) return;
    this.#unlooked = 0;
    // When the disk cannot be asked, the write itself finds out.
    void this.look().catch(() => {});
  }

  /** Throws 503 when the disk is full. `outcome` says what became of the bytes. */
  require(outcome: string): void {
    if (this.signal.aborted) throw diskFull(outcome);
  }
}

/**
 * Room for artifacts: what an org may have, and what the disk has. An upload announces its size before its first byte. That counts in full against its
 * own org, and for other orgs only what it has brought, and a little reserved beside: a promise takes no room from anyone else.
 */
export class Room {
  readonly #plane: Plane;
  /** Uploads in one request under way on this node; resumable ones are rows. */
  readonly #requests = new Map<symbol, Open>();

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /** Throws 413 when there is no room, 429 when the org has too many open uploads. Until `tx` ends nobody else is told that there is. */
  async require(tx: Db, org_id: string, bytes: number): Promise<void> {
    const { blobs, settings } = this.#plane;
    const { artifact_bytes_max, uploads_per_org_max } = settings.limits;
    await lockRoom(tx);
    const { stored, deleted, promised, uploads } = await countTaken(tx, org_id);
    const own = [...this.#requests.values()].filter((other) => other.org_id === org_id);
    if (uploads + own.length >= uploads_per_org_max)
      throw httpError(429, `the org has ${uploads + own.length} open uploads of at most ${uploads_per_org_max} (uploads_per_org_max)`, {
        "retry-after": RETRY_SECONDS,
      });
    const of_org = promised + sumOf(own, ({ size }) => size);
    if (stored + of_org + bytes > artifact_bytes_max) {
      throw httpError(
        413,
        `${sizeText(bytes)} more would exceed the ${sizeText(artifact_bytes_max)} (artifact_bytes_max) that the artifacts of an org may take: ${sizeText(stored)} are stored${deleted === 0 ? "" : `, ${sizeText(deleted)} of them of releases that were deleted less than a day ago`}, ${sizeText(of_org)} promised to uploads under way`,
      );
    }
    // A store without an end needs no list of what is in it, which would be read under the lock.
    if ((await blobs.freeBytes()) < Infinity) await this.#requireDisk(org_id, bytes);
  }

  /**
   * Runs `work` with room promised to it, and counts the bytes that it says have come. Throws 413 before it begins when there is none. `work` calls `taken`
   * in the transaction that writes down what it took, as the last thing: at no moment are the bytes counted twice or not at all.
   */
  async with<T>(org_id: string, bytes: number, work: (taken: (tx: Db) => Promise<void>, disk: DiskWatch) => Promise<T>): Promise<T> {
    const request = Symbol();
    const upload: Open = { org_id, size: bytes, received: 0 };
    const disk = new DiskWatch(this.#plane);
    const onBytes = disk.onBytes.bind(disk);
    disk.onBytes = (more) => {
      upload.received += more;
      onBytes(more);
    };
    try {
      await this.#plane.db.forOrg(org_id).transaction(async (tx) => {
        this.#requests.delete(request);
        await this.require(tx, org_id, bytes);
        this.#requests.set(request, upload);
      });
      return await work(async (tx) => {
        await lockRoom(tx);
        this.#requests.delete(request);
      }, disk);
    } finally {
      this.#requests.delete(request);
    }
  }

  /** The disk is one for all orgs. What is announced and not committed yet, its transaction holds the lock for. */
  async #requireDisk(org_id: string, bytes: number): Promise<void> {
    const { db, blobs, settings } = this.#plane;
    const { free_disk_bytes_min, upload_disk_share_percent } = settings.limits;
    const open = [...this.#requests.values(), ...(await this.#resumable())];
    const [own, others] = [open.filter((one) => one.org_id === org_id), open.filter((one) => one.org_id !== org_id)];
    // After the list: what comes meanwhile counts twice rather than not at all.
    const free = (await blobs.freeBytes()) - free_disk_bytes_min;
    const by_org = Map.groupBy(others, (one) => one.org_id);
    const reserved = [...by_org.values()].reduce((sum, uploads) => sum + Math.min(RESERVED_BYTES_MAX, sumOf(uploads, missing)), 0);
    if (free - sumOf(own, missing) - Math.min(reserved, Math.max(0, free) * RESERVED_PART_MAX) < bytes) throw noRoom(bytes);
    const share = ((free + sumOf(open, ({ received }) => received)) * upload_disk_share_percent) / 100;
    if (sumOf(own, ({ size }) => size) + bytes > share && (await hasOtherOrgs(db, org_id)))
      throw httpError(
        413,
        `the open uploads of one org may take ${upload_disk_share_percent} % (upload_disk_share_percent) of the server's disk, ${sizeText(Math.max(0, Math.floor(share)))} now: ${sizeText(bytes)} more are too many`,
      );
  }

  async #resumable(): Promise<Open[]> {
    const { db, blobs } = this.#plane;
    const rows = await listOpenUploads(db);
    const received = new Map<string, number>();
    for await (const { key, size } of blobs.listUploads()) received.set(key, size);
    return rows.map(({ org_id, release_id, size }) => ({ org_id, size, received: received.get(`${org_id}/${release_id}`) ?? 0 }));
  }
}

const noRoom = (bytes: number): Fault =>
  httpError(413, `the server's disk has no room for ${sizeText(bytes)} more: free_disk_bytes_min of it stay free`);
