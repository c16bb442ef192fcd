import type { Readable } from "node:stream";
import { ImageRefused } from "@roamfleet/protocol/image-archive";
import type { Release } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { BlobError } from "../../engines/blobs/index.ts";
import type { AuditNote } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, Fault, found, httpError, notFound, printable } from "../../kernel/fault.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { pages } from "../../kernel/page.ts";
import { Answer } from "../../kernel/serve.ts";
import { DiskWatch, UploadAdmission } from "./upload-admission.ts";
import { deleteExpiredUpload, deleteUpload, findUpload, insertUpload, keepUpload, listExpiredUploads } from "./store-uploads.ts";
import type { ReleaseRow } from "./store.ts";
import { UploadLeases } from "./upload-leases.ts";
import { blobKey, imagesIn, keepArtifact, requireUploadable, toFault, useStored } from "./upload.ts";
import { wireTimes } from "../../kernel/time.ts";

type Headers = Record<string, string | string[] | undefined>;

const VERSION = "1.0.0";
const CONTENT_TYPE = /^application\/offset\+octet-stream\s*(;|$)/i;
const NUMBER = /^\d{1,15}$/;

/** Whether the request uses the tus protocol for resumable uploads. Other HEAD requests ask for the artifact itself. */
export const speaksTus = (headers: Headers): boolean => headers["tus-resumable"] !== undefined;

/**
 * Runs a handler of the tus 1.0 protocol. Checks the version in the header `Tus-Resumable`, and adds this header to every response,
 * including errors.
 */
export async function tus<B>(headers: Headers, work: () => Promise<Answer<B>>): Promise<Answer<B>> {
  if (headers["tus-resumable"] !== VERSION) {
    throw httpError(412, `the header Tus-Resumable must be ${VERSION}`, { "tus-version": VERSION, "tus-resumable": VERSION });
  }
  try {
    const answer = await work();
    return new Answer(answer.status, answer.body, { ...answer.headers, "tus-resumable": VERSION });
  } catch (error) {
    if (error instanceof Fault) error.headers["tus-resumable"] = VERSION;
    throw error;
  }
}

/** Reads a header that contains a number of bytes. Throws 400 if the header is missing or invalid. */
function readCount(headers: Headers, name: "Upload-Length" | "Upload-Offset"): number {
  const text = headers[name.toLowerCase()];
  if (typeof text !== "string" || !NUMBER.test(text)) throw badRequest(`the header ${name} must be a number of bytes`);
  return Number(text);
}

function requireOffsetBody(headers: Headers): void {
  const type = headers["content-type"];
  if (typeof type !== "string" || !CONTENT_TYPE.test(type)) throw httpError(415, "the body must be application/offset+octet-stream");
}

/** A request that sends no byte for this long counts as disconnected. Then another request may continue its upload. */
const SILENCE_MS = 5_000;
const LOCKED_RETRY_SECONDS = 1;
const SWEEP_ROWS_MAX = 500;

/** The request or the sweep (a cleanup job) that has exclusive access to an upload. */
interface Holder {
  /** Monotonic time of the last received byte. Undefined while the holder must not be interrupted. */
  moved_at: number | undefined;
  /** Whether the holder is the sweep. Requests wait for the sweep, because it releases the upload after moments. */
  is_sweep: boolean;
  stop: () => void;
  ended: Promise<void>;
}

interface Continuation {
  org_id: string;
  release_id: string;
  headers: Headers;
  stream: Readable;
  allowBody: () => void;
  audit: AuditNote;
}

/** Adds an audit entry for the start or end of an upload. The requests in between are not audited. */
const noteUpload = (audit: AuditNote, upload: "begun" | "finished" | "dropped", bytes: number): void =>
  void Object.assign(audit, { changed: true, data: { upload, bytes } } satisfies AuditNote);

const uploadKey = (org_id: string, release_id: string): string => `${org_id}/${release_id}`;

/**
 * Returns the resumable uploads of this server. Routes and sweep share the object, so that only one of them works on an upload at a time.
 */
export const resumableUploads = planeState((plane: Plane) => new ResumableUploads(plane));

/**
 * Artifacts that are uploaded in several requests (tus 1.0). A release has at most one upload, so a client that resumes needs only the
 * release's id. Received bytes are deleted when no byte was received for `upload_silence_seconds`. After the last byte, the artifact is
 * checked, and then stored or deleted.
 */
class ResumableUploads {
  readonly admission: UploadAdmission;
  readonly #plane: Plane;
  /** The request or sweep that works on each upload in this process, by upload. */
  readonly #holders = new Map<string, Holder>();
  readonly #leases: UploadLeases;

  constructor(plane: Plane) {
    this.#plane = plane;
    this.admission = new UploadAdmission(plane);
    this.#leases = new UploadLeases(plane, SILENCE_MS, () => this.#expiry());
  }

  /** Reserves space for an upload. Throws 413 if there is no space, and 400 if the announced length differs from the release's size. */
  async start(db: Db, org_id: string, release_id: string, headers: Headers, audit: AuditNote): Promise<Answer<{ data: Release }>> {
    const release = await requireUploadable(db, org_id, release_id);
    if (headers["upload-defer-length"] !== undefined) throw badRequest("the header Upload-Length is required, with the release's size");
    const size = readCount(headers, "Upload-Length");
    if (size !== release.artifact_size)
      throw badRequest(`Upload-Length is ${size}; artifact_size of release ${printable(release.tag)} is ${release.artifact_size}`);
    const location = `/api/releases/${release_id}/artifact`;
    const stored = await useStored(this.#plane, db, org_id, release);
    if (stored !== undefined) {
      if (release.artifact_state !== "stored") noteUpload(audit, "finished", size);
      return new Answer(201, { data: wireTimes(stored) }, { location, ...offsetHeaders(size, size) });
    }
    // Keep the expiry of an upload that exists: only received bytes extend it, not a repeated start.
    const expires_at = (await findUpload(db, org_id, release_id))?.expires_at ?? this.#expiry();
    if ((await keepUpload(db, org_id, release_id, expires_at)) === 0) {
      await this.admission.require(db, org_id, size);
      await insertUpload(db, { org_id, release_id, size, expires_at }, this.#plane.clock.now());
      noteUpload(audit, "begun", size);
    }
    const offset = await this.#plane.blobs.uploaded(uploadKey(org_id, release_id));
    const now = size === 0 ? await this.#finish(db, org_id, release, audit) : release;
    return new Answer(201, { data: wireTimes(now) }, { location, ...offsetHeaders(offset, size, expires_at) });
  }

  /**
   * Returns how many bytes of the upload are stored. Completes an upload that has all its bytes, but whose server stopped before completing
   * it.
   */
  async readOffset(org_id: string, release_id: string, audit: AuditNote): Promise<Answer<never>> {
    const { blobs } = this.#plane;
    const db = this.#plane.db.forOrg(org_id);
    const release = await requireUploadable(db, org_id, release_id);
    const size = release.artifact_size;
    if (release.artifact_state === "stored") return new Answer<never>(200, "", offsetHeaders(size, size));
    return await this.#exclusively(org_id, release_id, async () => {
      const upload = found(await findUpload(db, org_id, release_id), "upload of release", release.tag);
      const offset = await blobs.uploaded(uploadKey(org_id, release_id));
      // The upload may be empty because the server moved the artifact to its final name, and then stopped before it committed the row.
      if (offset === 0 && (await useStored(this.#plane, db, org_id, release)) !== undefined) {
        noteUpload(audit, "finished", size);
        return new Answer<never>(200, "", offsetHeaders(size, size));
      }
      if (offset === size) await this.#finish(db, org_id, release, audit);
      return new Answer<never>(200, "", offsetHeaders(offset, size, upload.expires_at));
    });
  }

  /** Receives the next bytes. Throws 409 if their offset is not the end of the stored bytes, and 423 while another request uploads. */
  async continue({ org_id, release_id, headers, stream, allowBody, audit }: Continuation): Promise<Answer<never>> {
    const { blobs } = this.#plane;
    const db = this.#plane.db.forOrg(org_id);
    const release = await requireUploadable(db, org_id, release_id);
    const { artifact_size: size } = release;
    requireOffsetBody(headers);
    const offset = readCount(headers, "Upload-Offset");
    const key = uploadKey(org_id, release_id);
    return await this.#exclusively(org_id, release_id, async (holder, signal) => {
      if ((await findUpload(db, org_id, release_id)) === undefined) throw notFound("upload of release", release.tag);
      const have = await blobs.uploaded(key);
      if (have !== offset) throw conflict(`Upload-Offset is ${offset}; the upload has ${have} bytes`);
      if (offset + Number(headers["content-length"] ?? 0) > size)
        throw badRequest(`the body would make the upload longer than the ${size} bytes of release ${printable(release.tag)}`);
      const disk = new DiskWatch(this.#plane);
      await disk.check();
      disk.require(`${offset} bytes of the upload are kept`);
      allowBody();
      const on_bytes = (bytes: number): void => {
        holder.moved_at = this.#plane.clock.monotonic();
        disk.onBytes(bytes);
      };
      on_bytes(0);
      try {
        const stop = AbortSignal.any([signal, disk.signal]);
        const { size: now, whole } = await blobs.append(key, stream, { offset, max_bytes: size, signal: stop, on_bytes });
        holder.moved_at = undefined;
        const expires_at = this.#expiry();
        if (now > offset) await keepUpload(db, org_id, release_id, expires_at);
        if (!whole) disk.require(`${now} bytes of the upload are kept`);
        if (now === size) await this.#finish(db, org_id, release, audit);
        else if (!whole) throw badRequest(`the upload was interrupted; ${now} bytes are kept`);
        return new Answer<never>(204, "", offsetHeaders(now, size, now === size ? undefined : expires_at));
      } catch (error) {
        if (error instanceof BlobError && error.code === "too_large") await this.#drop(db, org_id, release_id);
        throw toFault(error, release);
      }
    });
  }

  /** Deletes the upload of a release with its received bytes. */
  async end(db: Db, org_id: string, release_id: string): Promise<Answer<never>> {
    await requireUploadable(db, org_id, release_id);
    return await this.#exclusively(org_id, release_id, async (holder) => {
      if ((await findUpload(db, org_id, release_id)) === undefined) throw notFound("upload of release", release_id);
      // Stop the lease renewals. A renewal would wait for this transaction, which locks the row from here on.
      holder.moved_at = -Infinity;
      await this.#drop(db, org_id, release_id);
      return new Answer<never>(204, "");
    });
  }

  /** Deletes uploads that received no byte for `upload_silence_seconds`. If a deletion fails, continues with the other uploads. */
  async expire(): Promise<void> {
    const { db, blobs, retention_clock, log } = this.#plane;
    const now = retention_clock.now();
    const read = (last = { org_id: "", release_id: "" }) => listExpiredUploads(db, now, last, SWEEP_ROWS_MAX);
    for await (const expired of pages(SWEEP_ROWS_MAX, read))
      for (const upload of expired) {
        const { org_id, release_id } = upload;
        const drop = this.#unlessBusy(org_id, release_id, async () => {
          if ((await deleteExpiredUpload(db, upload, now)) === 0) return;
          await blobs.abandon(uploadKey(org_id, release_id));
          log.info({ org_id, release_id }, "unfinished upload removed");
        });
        await drop.catch((error: unknown) => log.error({ err: error, org_id, release_id }, "could not remove an unfinished upload"));
      }
  }

  /** Deletes stored bytes whose upload no longer exists. */
  async dropLeftovers(): Promise<void> {
    const { db, blobs, log } = this.#plane;
    for await (const { key } of blobs.listUploads()) {
      const [org_id = "", release_id = ""] = key.split("/");
      const drop = this.#unlessBusy(org_id, release_id, async () => {
        if ((await findUpload(db, org_id, release_id)) === undefined) await blobs.abandon(key);
      });
      await drop.catch((error: unknown) => log.error({ err: error, org_id, release_id }, "could not remove leftover bytes of an upload"));
    }
  }

  async #finish(db: Db, org_id: string, release: ReleaseRow, audit: AuditNote): Promise<ReleaseRow> {
    const { artifact_size: size, artifact_sha256: sha256, id } = release;
    // The request must get an audit entry even if the completion fails.
    audit.changed = true;
    try {
      const completed = await this.#plane.blobs.complete(uploadKey(org_id, id), { size, sha256 });
      const images = await imagesIn(release, (range) => completed.read(range));
      await completed.prepare(blobKey(org_id, sha256));
      const stored = await keepArtifact(this.#plane, db, org_id, { release, images, commit: (key) => completed.commit(key) });
      noteUpload(audit, "finished", size);
      return stored;
    } catch (error) {
      if (error instanceof ImageRefused || (error instanceof BlobError && error.code === "mismatch")) {
        await this.#drop(db, org_id, id);
        noteUpload(audit, "dropped", size);
      }
      throw toFault(error, release);
    }
  }

  async #drop(db: Db, org_id: string, release_id: string): Promise<void> {
    await deleteUpload(db, org_id, release_id);
    await this.#plane.blobs.abandon(uploadKey(org_id, release_id));
  }

  #expiry(): Date {
    const { retention_clock, settings } = this.#plane;
    return new Date(retention_clock.now().getTime() + settings.limits.upload_silence_seconds * 1_000);
  }

  /**
   * Runs `work` with exclusive access to the upload. If a request that stopped sending has the access, stops that request. If any other
   * request has it, throws 423.
   */
  async #exclusively<T>(
    org_id: string,
    release_id: string,
    work: (holder: Holder, signal: AbortSignal) => Promise<T>,
    is_sweep = false,
  ): Promise<T> {
    const key = uploadKey(org_id, release_id);
    const before = this.#holders.get(key);
    if (before?.is_sweep === true) await before.ended;
    else if (before?.moved_at !== undefined && this.#plane.clock.monotonic() - before.moved_at >= SILENCE_MS) {
      before.stop();
      await before.ended;
    }
    if (this.#holders.has(key)) throw locked(release_id);
    const stopping = new AbortController();
    const ended = Promise.withResolvers<void>();
    const holder: Holder = { moved_at: undefined, is_sweep, stop: () => stopping.abort(), ended: ended.promise };
    this.#holders.set(key, holder);
    const worker = { movedAt: () => holder.moved_at, lost: holder.stop };
    try {
      const done = await this.#leases.while({ org_id, release_id }, worker, () => work(holder, stopping.signal));
      if (done === undefined) throw locked(release_id);
      return done.value;
    } finally {
      this.#holders.delete(key);
      ended.resolve();
    }
  }

  async #unlessBusy(org_id: string, release_id: string, work: () => Promise<void>): Promise<void> {
    if (this.#holders.has(uploadKey(org_id, release_id))) return;
    await this.#exclusively(org_id, release_id, work, true).catch((error: unknown) => {
      // A 423 means that another request or node is working on the upload: skip it.
      if (!(error instanceof Fault) || error.status !== 423) throw error;
    });
  }
}

const locked = (release_id: string): Fault =>
  httpError(423, `another request is uploading the artifact of release ${release_id}`, { "retry-after": String(LOCKED_RETRY_SECONDS) });

const offsetHeaders = (offset: number, size: number, expires_at?: Date): Record<string, string> => ({
  "upload-offset": String(offset),
  "upload-length": String(size),
  ...(expires_at === undefined ? {} : { "upload-expires": expires_at.toUTCString() }),
});
