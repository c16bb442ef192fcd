import type { Clock } from "@roamfleet/clock";
import type { EngineLog } from "../log.ts";
import { splitKey } from "./keys.ts";
import { removeAll } from "./s3-segments.ts";
import type { S3Store } from "./s3-store.ts";

export const BLOBS = "blobs";

/** Returns the object's key for a blob. Rejects with `bad_key`. */
export function blobObject(key: string): string {
  const { owner, name } = splitKey(key);
  return `${BLOBS}/${owner}/${name}`;
}

/** State that the parts of the S3 store share. */
export class S3Context {
  readonly store: S3Store;
  readonly clock: Clock;
  /** The clock that decides which leftovers are old. */
  readonly retention_clock: Pick<Clock, "now">;
  readonly log: EngineLog;
  readonly #removals = new Set<Promise<void>>();

  constructor(store: S3Store, options: { clock: Clock; retention_clock?: Pick<Clock, "now">; log: EngineLog }) {
    this.store = store;
    this.clock = options.clock;
    this.retention_clock = options.retention_clock ?? options.clock;
    this.log = options.log;
  }

  /**
   * Removes objects in the background. Resolves when the first one is removed, because callers may be inside a transaction. Failed removals
   * are no error: the sweep removes the objects later.
   */
  async forget(keys: readonly string[]): Promise<void> {
    const [first = "", ...rest] = keys;
    const warn = (error: unknown): void => this.log.warn({ err: error }, "objects of an upload could not be removed; they are swept later");
    await removeAll(this.store, first === "" ? [] : [first]).catch(warn);
    if (rest.length === 0) return;
    const removal = removeAll(this.store, rest).catch(warn);
    this.#removals.add(removal);
    void removal.finally(() => this.#removals.delete(removal));
  }

  /** Resolves when no removal is running. */
  async settled(): Promise<void> {
    while (this.#removals.size > 0) await Promise.all(this.#removals);
  }
}
