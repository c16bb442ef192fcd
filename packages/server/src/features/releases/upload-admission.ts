import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { diskFull, type Fault, httpError } from "../../kernel/fault.ts";
import { countTaken, hasOtherOrgs, listOpenUploads, lockUploadAdmission } from "./store-uploads.ts";

/** Formats a number of bytes. From 1 MiB, also adds it in a larger unit. */
function sizeText(bytes: number): string {
  const unit = UNITS.find(([, size]) => bytes >= size);
  return unit === undefined ? `${bytes} bytes` : `${bytes} bytes (${(bytes / unit[1]).toFixed(1)} ${unit[0]})`;
}

const UNITS = [
  ["TiB", 1024 ** 4],
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
] as const;

/** Maximum disk space that the open uploads of one org make unavailable to other orgs, whatever sizes they announced. */
const RESERVED_BYTES_MAX = 64 * 1024 ** 2;
/** Maximum share of the free disk space that the open uploads of all other orgs make unavailable to an org in total. */
const RESERVED_PART_MAX = 0.5;
/** During an upload, the free disk space is checked each time this many bytes have been received. */
const CHECK_EVERY_BYTES = 16 * 1024 ** 2;
const RETRY_SECONDS = "60";

/** An incomplete upload. */
interface Open {
  org_id: string;
  /** The announced size in bytes. */
  size: number;
  /** The bytes that are already on the disk. */
  received: number;
}

const sumOf = (uploads: readonly Open[], read: (upload: Open) => number): number =>
  uploads.reduce((sum, upload) => sum + Math.max(0, read(upload)), 0);
const missing = ({ size, received }: Open): number => size - received;

/** Checks the free disk space during an upload. `signal` aborts if the space falls below the configured minimum. */
export class DiskWatch {
  readonly #plane: Pick<Plane, "blobs" | "settings">;
  readonly #full = new AbortController();
  #unchecked = 0;

  constructor(plane: Pick<Plane, "blobs" | "settings">) {
    this.#plane = plane;
  }

  get signal(): AbortSignal {
    return this.#full.signal;
  }

  /** Aborts the signal if the disk is full. */
  async check(): Promise<void> {
    const { blobs, settings } = this.#plane;
    if ((await blobs.freeBytes()) < settings.limits.free_disk_bytes_min) this.#full.abort();
  }

  onBytes(bytes: number): void {
    this.#unchecked += bytes;
    if (this.#unchecked < CHECK_EVERY_BYTES) return;
    this.#unchecked = 0;
    // Ignore errors of the check: if the disk is full, writing the upload fails anyway.
    void this.check().catch(() => {});
  }

  /** Throws 503 if the disk is full. `outcome` states what happened to the received bytes. */
  require(outcome: string): void {
    if (this.signal.aborted) throw diskFull(outcome);
  }
}

/**
 * Admits an upload if the org's quota and the disk have enough space. An upload announces its size before its first byte. For the quota of
 * the uploading org, the whole announced size counts. For other orgs, only the received bytes and a small reserve count, so that an
 * announcement does not block them.
 */
export class UploadAdmission {
  readonly #plane: Plane;
  /** Uploads in a single request that are in progress on this node. Resumable uploads are in the database instead. */
  readonly #requests = new Map<symbol, Open>();

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /**
   * Checks whether an upload of `bytes` bytes may start. Throws 413 if there is no space, and 429 if the org has too many open uploads.
   * Other checks in the whole service wait until `tx` ends.
   */
  async require(tx: Db, org_id: string, bytes: number): Promise<void> {
    const { blobs, settings } = this.#plane;
    const { artifact_bytes_max, uploads_per_org_max } = settings.limits;
    await lockUploadAdmission(tx);
    const { stored, deleted, promised, uploads } = await countTaken(tx, org_id);
    const own = [...this.#requests.values()].filter((other) => other.org_id === org_id);
    if (uploads + own.length >= uploads_per_org_max)
      throw httpError(
        429,
        `the org has ${uploads + own.length} open uploads; the maximum is ${uploads_per_org_max} (uploads_per_org_max)`,
        {
          "retry-after": RETRY_SECONDS,
        },
      );
    const of_org = promised + sumOf(own, ({ size }) => size);
    if (stored + of_org + bytes > artifact_bytes_max) {
      throw httpError(
        413,
        `${sizeText(bytes)} more would exceed the ${sizeText(artifact_bytes_max)} (artifact_bytes_max) that an org may use for artifacts: ${sizeText(stored)} are stored${deleted === 0 ? "" : `, ${sizeText(deleted)} of them by releases that were deleted less than a day ago`}, ${sizeText(of_org)} are reserved for open uploads`,
      );
    }
    // Skip the disk check if the store is unlimited: the check would list all uploads while other requests wait for the lock.
    if ((await blobs.freeBytes()) < Infinity) await this.#requireDisk(org_id, bytes);
  }

  /**
   * Reserves space and runs `work`. Throws 413 before `work` starts if there is no space. `work` must report received bytes to `disk`. In
   * the transaction that records the artifact, it must call `taken` last, so that the bytes are counted exactly once at any time.
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
        await lockUploadAdmission(tx);
        this.#requests.delete(request);
      }, disk);
    } finally {
      this.#requests.delete(request);
    }
  }

  /**
   * Throws 413 if the disk has no space for the upload, or if the org would exceed its share of the disk. The caller must have locked the
   * admission, so that no other upload is announced meanwhile.
   */
  async #requireDisk(org_id: string, bytes: number): Promise<void> {
    const { db, blobs, settings } = this.#plane;
    const { free_disk_bytes_min, upload_disk_share_percent } = settings.limits;
    const open = [...this.#requests.values(), ...(await this.#resumable())];
    const [own, others] = [open.filter((one) => one.org_id === org_id), open.filter((one) => one.org_id !== org_id)];
    // Read the free space after listing the uploads. So bytes that arrive in between are counted twice, which is safe, instead of not at
    // all.
    const free = (await blobs.freeBytes()) - free_disk_bytes_min;
    const by_org = Map.groupBy(others, (one) => one.org_id);
    const reserved = [...by_org.values()].reduce((sum, uploads) => sum + Math.min(RESERVED_BYTES_MAX, sumOf(uploads, missing)), 0);
    if (free - sumOf(own, missing) - Math.min(reserved, Math.max(0, free) * RESERVED_PART_MAX) < bytes) throw diskTooSmall(bytes);
    const share = ((free + sumOf(open, ({ received }) => received)) * upload_disk_share_percent) / 100;
    if (sumOf(own, ({ size }) => size) + bytes > share && (await hasOtherOrgs(db, org_id)))
      throw httpError(
        413,
        `the open uploads of one org may use ${upload_disk_share_percent}% (upload_disk_share_percent) of the server's disk, at present ${sizeText(Math.max(0, Math.floor(share)))} now; ${sizeText(bytes)} more would exceed this limit`,
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

const diskTooSmall = (bytes: number): Fault =>
  httpError(413, `the server's disk has no space for ${sizeText(bytes)} more: free_disk_bytes_min must stay free`);
