import type { Plane } from "../../context.ts";
import { findHold, giveUpHold, type Hold, renewHold, takeHold, type UploadName } from "./store-upload-holds.ts";

const RENEW_EVERY_MS = 1_500;
/** Uploads of other nodes that are remembered to be held: the oldest is forgotten, and asked for anew. */
const SEEN_MAX = 1_000;

type HoldsPlane = Pick<Plane, "db" | "clock" | "id" | "node" | "log">;

/** What one who works on an upload does for the other nodes to know. */
export interface UploadHold {
  /** Monotonic, of the last byte: others may take the upload from one that has not moved for a while. Undefined: it works without. */
  movedAt: () => number | undefined;
  /** Somebody else has taken it. */
  lost: () => void;
}

/**
 * Who works on an upload, where several nodes share the store: one of them, as the upload's row says. A holder renews while
 * it moves; another node takes over when it saw no change for a while by its own clock, or the holder's node is dead.
 */
export class UploadHolds {
  readonly #plane: HoldsPlane;
  readonly #quiet_ms: number;
  readonly #expiry: () => Date;
  /** Holds of others, with the monotonic time since when they have not changed. */
  readonly #seen = new Map<string, Hold & { since: number }>();

  /** `expiry`: when an upload expires that moves now. */
  constructor(plane: HoldsPlane, quiet_ms: number, expiry: () => Date) {
    this.#plane = plane;
    this.#quiet_ms = quiet_ms;
    this.#expiry = expiry;
  }

  /** Works while the upload is held, or there is no such upload. Undefined: another node has it. */
  async while<T>(upload: UploadName, hold: UploadHold, work: () => Promise<T>): Promise<{ value: T } | undefined> {
    const { db, clock, id, log } = this.#plane;
    const holder = id("hold");
    const taken = await this.#take(upload, holder);
    if (taken === "held") return undefined;
    if (taken === "no upload") return { value: await work() };
    let renewing: Promise<void> = Promise.resolve();
    let renewed_at = clock.monotonic();
    const renew = async (): Promise<void> => {
      if ((hold.movedAt() ?? Infinity) < renewed_at) return;
      renewed_at = clock.monotonic();
      if ((await renewHold(db, upload, holder, this.#expiry())) === 0) hold.lost();
    };
    // A renewal that fails is made up for by the next one, or somebody takes over.
    const timer = clock.every(
      RENEW_EVERY_MS,
      () => (renewing = renew().catch((error: unknown) => log.warn({ err: error }, "an upload could not be held"))),
    );
    try {
      return { value: await work() };
    } finally {
      timer.cancel();
      await renewing;
      await giveUpHold(db, upload, holder).catch((error: unknown) => log.warn({ err: error }, "an upload could not be given up"));
    }
  }

  async #take(upload: UploadName, holder: string): Promise<"taken" | "held" | "no upload"> {
    const { db, clock, node } = this.#plane;
    const key = `${upload.org_id}/${upload.release_id}`;
    const seen = this.#seen.get(key);
    const silent = seen !== undefined && clock.monotonic() - seen.since >= this.#quiet_ms ? seen : undefined;
    if ((await takeHold(db, upload, node, holder, silent)) > 0) {
      this.#seen.delete(key);
      return "taken";
    }
    const held = await findHold(db, upload);
    if (held === undefined) {
      this.#seen.delete(key);
      return "no upload";
    }
    if (seen?.holder !== held.holder || seen.holder_beat !== held.holder_beat) this.#remember(key, held);
    return "held";
  }

  #remember(key: string, held: Hold): void {
    this.#seen.delete(key);
    this.#seen.set(key, { ...held, since: this.#plane.clock.monotonic() });
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > SEEN_MAX && oldest !== undefined) this.#seen.delete(oldest);
  }
}
