import { createHmac, randomBytes } from "node:crypto";
import type { Plane } from "../../context.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { httpError } from "../../kernel/fault.ts";
import type { WrappedKey } from "../../kernel/master-keys.ts";
import { KEY_BYTES, seal, unseal, type Bound } from "../../kernel/sealing.ts";
import { countKeysOfOthers, insertKey, listKeys, listKeysOfOthers, setKey } from "./key-store.ts";

/** The parts of the plane that encryption needs. */
export type Sealing = Pick<Plane, "clock" | "id" | "secrets" | "bus">;

const KEY_ID = "skey";
/** `sealed.1.<id of the data key>.<base64url>` */
const SEALED = /^sealed\.1\.(skey_[0-9a-z]{26})\.([\w-]+)$/;
const RETRY_SECONDS = "60";
const REWRAP_ROWS_MAX = 1_000;

export const isSealed = (content: string): boolean => content.startsWith("sealed.");

/** Encrypts and decrypts for one org, with the data keys that it had when this object was created. */
export class OrgSecrets {
  readonly #org_id: string;
  /** Newest first. Undefined: encrypted with a master key that this server does not have. */
  readonly #keys: Map<string, Buffer | undefined>;

  constructor(org_id: string, keys: Map<string, Buffer | undefined>) {
    this.#org_id = org_id;
    this.#keys = keys;
  }

  seal(plain: string, bound: Bound): string {
    const [id, key] = this.#newest();
    return `sealed.1.${id}.${seal(key, Buffer.from(plain), [this.#org_id, id, ...bound])}`;
  }

  /** Throws 503 if the server lacks the key; any other error means that the database was tampered with. */
  open(sealed: string, bound: Bound): string {
    const [, id = "", text = ""] = SEALED.exec(sealed) ?? [];
    const key = this.#keys.get(id);
    if (key === undefined)
      throw httpError(503, "this server does not have the key that encrypted the secret; its administrator must restore it", {
        "retry-after": RETRY_SECONDS,
      });
    return unseal(key, text, [this.#org_id, id, ...bound]).toString();
  }

  /** Returns a keyed hash: the same for the same text, but the text cannot be guessed from it. */
  fingerprint(plain: string): Buffer {
    return createHmac("sha256", this.#newest()[1]).update("fingerprint").update(plain).digest();
  }

  get can_seal(): boolean {
    return [...this.#keys.values()].some((key) => key !== undefined);
  }

  #newest(): readonly [string, Buffer] {
    for (const [id, key] of this.#keys) if (key !== undefined) return [id, key];
    throw new Error("the org has no usable data key");
  }
}

/** Reads the data keys of an org. */
export async function openOrgSecrets(db: Db, { secrets }: Pick<Sealing, "secrets">, org_id: string): Promise<OrgSecrets> {
  const keys = await listKeys(db, org_id);
  return new OrgSecrets(org_id, new Map(keys.map((key) => [key.id, secrets.unwrap(key, [org_id, key.id])])));
}

/** Likewise, with a usable data key: creates one if there is none, or none that this server can open. */
export async function ensureOrgSecrets(db: Db, plane: Sealing, org_id: string): Promise<OrgSecrets> {
  const there = await openOrgSecrets(db, plane, org_id);
  if (there.can_seal) return there;
  const id = plane.id(KEY_ID);
  const { master_key_id, wrapped } = plane.secrets.wrap(randomBytes(KEY_BYTES), [org_id, id]);
  await insertKey(db, org_id, { id, master_key_id, wrapped }, plane.clock.now());
  return await openOrgSecrets(db, plane, org_id);
}

/**
 * Encrypts with the current master key the data keys that were encrypted with an earlier one, so that the earlier one can be discarded.
 * Returns how many were encrypted again, and how many need a master key that this server lacks: their secrets cannot be read.
 */
export async function rewrapDataKeys(db: SystemDb, { secrets }: Pick<Plane, "secrets">): Promise<{ rewrapped: number; unknown: number }> {
  let [rewrapped, after] = [0, ""];
  for (;;) {
    const rows = await listKeysOfOthers(db, secrets.current_id, after, REWRAP_ROWS_MAX);
    for (const { org_id, id, ...key } of rows) {
      const data_key = secrets.unwrap(key, [org_id, id]);
      if (data_key === undefined) continue;
      rewrapped += await setKey(db.forOrg(org_id), org_id, { id, ...secrets.wrap(data_key, [org_id, id]) });
    }
    if (rows.length < REWRAP_ROWS_MAX) break;
    after = rows.at(-1)?.id ?? "";
  }
  return { rewrapped, unknown: (await countKeysOfOthers(db, secrets.current_id)).count };
}

/** Counts the data keys that this server can and cannot open, without encrypting any again. */
export async function countDataKeys(
  db: SystemDb,
  { secrets }: Pick<Plane, "secrets">,
): Promise<{ readable: number; unknown: number; damaged: number }> {
  const counts = { readable: 0, unknown: 0, damaged: 0 };
  for (let after = ""; ;) {
    // No key is encrypted with a master key named "", so this lists all.
    const rows = await listKeysOfOthers(db, "", after, REWRAP_ROWS_MAX);
    for (const { org_id, id, ...key } of rows) counts[stateOf(secrets, key, [org_id, id])] += 1;
    if (rows.length < REWRAP_ROWS_MAX) return counts;
    after = rows.at(-1)?.id ?? "";
  }
}

function stateOf(secrets: Plane["secrets"], key: WrappedKey, bound: Bound): "readable" | "unknown" | "damaged" {
  try {
    return secrets.unwrap(key, bound) === undefined ? "unknown" : "readable";
  } catch {
    return "damaged";
  }
}
