import { randomBytes } from "node:crypto";
import { buffer } from "node:stream/consumers";
import type { Clock } from "@roamfleet/clock";
import { type S3Error, toS3Error } from "./s3-error.ts";
import { openS3, type S3Part, type S3Settings, type S3Store } from "./s3-store.ts";
import { SILENT } from "../log.ts";

/** The S3 operations that are needed to store artifacts. */
export type S3Step =
  | "list"
  | "write"
  | "read"
  | "copy"
  | "start a multipart upload"
  | "copy a part"
  | "complete an upload"
  | "list uploads"
  | "delete";

/** Result of checking an S3 store. */
export interface S3Seen {
  /** The operations that failed, and why. */
  failed: readonly { step: S3Step; error: S3Error }[];
  /** Keys of test objects that could not be removed, relative to the store's prefix. */
  left: readonly string[];
  /** The store's clock minus the local one, to the second; undefined if the store sent no time. */
  clock_ahead_ms: number | undefined;
  /** Time that a write of a few bytes took; undefined if the write failed. */
  write_ms: number | undefined;
}

const CONTENT = Buffer.from("roamfleet doctor");

/**
 * Tests every operation that is needed to store artifacts. Uses test objects below `doctor/` and removes them afterwards. Never rejects.
 * Skips the operations that depend on a failed one. When `signal` is aborted, it starts no further operation.
 */
export async function probeS3(
  settings: S3Settings,
  options: { clock: Pick<Clock, "now" | "monotonic">; signal: AbortSignal },
): Promise<S3Seen> {
  const store = await openS3(settings, SILENT, { tries: 1, pause_ms: 0 });
  try {
    return await new Probe(store, options).run();
  } finally {
    store.close();
  }
}

class Probe {
  readonly #store: S3Store;
  readonly #options: { clock: Pick<Clock, "now" | "monotonic">; signal: AbortSignal };
  readonly #key = `doctor/${randomBytes(9).toString("base64url")}`;
  readonly #made = new Set<string>();
  readonly #failed: { step: S3Step; error: S3Error }[] = [];

  constructor(store: S3Store, options: { clock: Pick<Clock, "now" | "monotonic">; signal: AbortSignal }) {
    this.#store = store;
    this.#options = options;
  }

  async run(): Promise<S3Seen> {
    const { clock } = this.#options;
    const [store, key] = [this.#store, this.#key];
    let write_ms: number | undefined;
    let clock_ahead_ms: number | undefined;
    await this.#try("list", () => store.check());
    // Continues only after access errors. Other errors mean that the bucket or store is missing, so every operation would fail.
    if (this.#failed.every(({ error }) => error.reason === "AccessDenied" || error.reason === "Forbidden")) {
      const since = clock.monotonic();
      if (await this.#make("write", key, () => store.put(key, CONTENT))) {
        write_ms = clock.monotonic() - since;
        await this.#try("read", async () => {
          clock_ahead_ms = await this.#readBack();
        });
        await this.#make("copy", `${key}.copy`, () => store.copy(key, `${key}.copy`));
        await this.#assemble(`${key}.parts`);
      }
    }
    return { write_ms, clock_ahead_ms, left: await this.#removeAll(), failed: this.#failed };
  }

  async #readBack(): Promise<number | undefined> {
    await buffer((await this.#store.get(this.#key)).body);
    const found = await this.#store.head(this.#key);
    return found && found.stored_at.getTime() - this.#options.clock.now().getTime();
  }

  /** Creates an object from parts, in the same way as resumable uploads. */
  async #assemble(to: string): Promise<void> {
    const store = this.#store;
    let id = "";
    const begun = await this.#try("start a multipart upload", async () => {
      id = await store.beginParts(to, {});
    });
    if (!begun) return;
    let parts: S3Part[] = [];
    const done =
      (await this.#try("copy a part", async () => {
        parts = [await store.copyPart(to, id, 1, this.#key)];
      })) && (await this.#make("complete an upload", to, () => store.completeParts(to, id, parts)));
    if (!done) await store.abortParts(to, id).catch(() => {});
    await this.#try("list uploads", async () => {
      await store.listParts("doctor/").next();
    });
  }

  /** Creates a test object and records its key for removal, even if no response arrived: the object may exist then. */
  async #make(step: S3Step, key: string, work: () => Promise<void>): Promise<boolean> {
    const done = await this.#try(step, work);
    const last = this.#failed.at(-1);
    if (done || (last?.step === step && last.error.status === undefined)) this.#made.add(key);
    return done;
  }

  async #try(step: S3Step, work: () => Promise<void>): Promise<boolean> {
    if (this.#options.signal.aborted) return false;
    try {
      await work();
      return true;
    } catch (error) {
      this.#failed.push({ step, error: toS3Error(step, error) });
      return false;
    }
  }

  async #removeAll(): Promise<string[]> {
    const left: string[] = [];
    for (const key of this.#made) {
      try {
        await this.#store.remove(key);
      } catch (error) {
        if (left.length === 0) this.#failed.push({ step: "delete", error: toS3Error("delete", error) });
        left.push(key);
      }
    }
    return left;
  }
}
