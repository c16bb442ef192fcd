import { createHmac, randomBytes } from "node:crypto";
import type { Plane } from "../../context.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { httpError } from "../../kernel/fault.ts";
import { type Bound, KEY_BYTES, seal, unseal, type WrappedKey } from "../../kernel/master-keys.ts";
import { pages } from "../../kernel/page.ts";
import { countKeysOfOthers, insertKey, listKeys, listKeysOfOthers, type OwnedKeyRow, setKey } from "./store.ts";

/** The server's dependencies that encryption needs. */
export type Sealing = Pick<Plane, "clock" | "id" | "secrets" | "bus">;

const KEY_ID = "skey";
/** The format of encrypted text: `sealed.1.<id of the data key>.<base64url>`. */
const SEALED = /^sealed\.1\.(skey_[0-9a-z]{26})\.([\w-]+)$/;
const RETRY_SECONDS = "60";
const REWRAP_ROWS_MAX = 1_000;

export const isSealed = (content: string): boolean => content.startsWith("sealed.");

/** Encrypts and decrypts for one org, with the data keys that the org had when this object was created. */
export class OrgSecrets {
  readonly #org_id: string;
  /** Data keys by id, newest first; undefined for a key encrypted with a master key that this server does not have. */
  readonly #keys: Map<string, Buffer | undefined>;

  constructor(org_id: string, keys: Map<string, Buffer | undefined>) {
    this.#org_id = org_id;
    this.#keys = keys;
  }

  seal(plain: string, bound: Bound): string {
    const [id, key] = this.#newest();
    return `sealed.1.${id}.${seal(key, Buffer.from(plain), [this.#org_id, id, ...bound])}`;
  }

  /** Decrypts a text. Throws 503 if the server lacks the key. Any other error means that the database was tampered with. */
  open(sealed: string, bound: Bound): string {
    const [, id = "", text = ""] = SEALED.exec(sealed) ?? [];
    const key = this.#keys.get(id);
    if (key === undefined)
      throw httpError(503, "this server does not have the key that encrypted the secret; the server's administrator must restore the key", {
        "retry-after": RETRY_SECONDS,
      });
    return unseal(key, text, [this.#org_id, id, ...bound]).toString();
  }

  /** Returns a keyed hash. Equal texts have equal hashes, but without the key the text cannot be guessed from the hash. */
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

/** Reads the data keys of an org. Creates a data key if this server can decrypt none of them. */
export async function ensureOrgSecrets(db: Db, plane: Sealing, org_id: string): Promise<OrgSecrets> {
  const there = await openOrgSecrets(db, plane, org_id);
  if (there.can_seal) return there;
  const id = plane.id(KEY_ID);
  const { master_key_id, wrapped } = plane.secrets.wrap(randomBytes(KEY_BYTES), [org_id, id]);
  await insertKey(db, org_id, { id, master_key_id, wrapped }, plane.clock.now());
  return await openOrgSecrets(db, plane, org_id);
}

/**
 * Encrypts all data keys with the current master key, so that earlier master keys can be discarded. Returns how many data keys it changed
 * (`rewrapped`), and how many are encrypted with a master key that this server lacks (`unknown`). Secrets encrypted with an unknown data
 * key cannot be read.
 */
export async function rewrapDataKeys(db: SystemDb, { secrets }: Pick<Plane, "secrets">): Promise<{ rewrapped: number; unknown: number }> {
  let rewrapped = 0;
  for await (const rows of keysOfOthers(db, secrets.current_id))
    for (const { org_id, id, ...key } of rows) {
      const data_key = secrets.unwrap(key, [org_id, id]);
      if (data_key === undefined) continue;
      rewrapped += await setKey(db.forOrg(org_id), org_id, { id, ...secrets.wrap(data_key, [org_id, id]) });
    }
  return { rewrapped, unknown: (await countKeysOfOthers(db, secrets.current_id)).count };
}

const keysOfOthers = (db: SystemDb, master_key_id: string) =>
  pages(REWRAP_ROWS_MAX, (last: OwnedKeyRow | undefined) => listKeysOfOthers(db, master_key_id, last?.id ?? "", REWRAP_ROWS_MAX));

/** Counts the data keys that this server can decrypt, those whose master key it lacks, and damaged ones. Changes no key. */
export async function countDataKeys(
  db: SystemDb,
  { secrets }: Pick<Plane, "secrets">,
): Promise<{ readable: number; unknown: number; damaged: number }> {
  const counts = { readable: 0, unknown: 0, damaged: 0 };
  // No data key is encrypted with a master key whose id is "", so this returns all data keys.
  for await (const rows of keysOfOthers(db, ""))
    for (const { org_id, id, ...key } of rows) counts[stateOf(secrets, key, [org_id, id])] += 1;
  return counts;
}

function stateOf(secrets: Plane["secrets"], key: WrappedKey, bound: Bound): "readable" | "unknown" | "damaged" {
  try {
    return secrets.unwrap(key, bound) === undefined ? "unknown" : "readable";
  } catch {
    return "damaged";
  }
}

/**
 * Binds a secret to one version of one entry. Without this, an attacker who can write to the database could copy the secret to an entry
 * that the attacker may read.
 */
export const entryBound = (config_id: string, version: number): Bound => ["config", config_id, version];

/** Binds an encrypted file to its digest. */
export const fileBound = (sha256: string): Bound => ["config file", sha256];

/** The config file of a namespace on a robot. */
export interface ConfigFile {
  /** JSON with sorted keys at every level, indented by two, and a final newline. Stored encrypted if it contains a secret. */
  content: string;
  /** The SHA-256 of the file's UTF-8 bytes, as lower-case hex. */
  sha256: string;
}

interface OpenedFile {
  /** The exact text of the file. Its digest is the one that was sent to the robot. */
  content: string;
  /** The keys in the file whose values are secret. */
  secret_keys: readonly string[];
}

/** Decrypts a file that was stored for a robot. Throws 503 if the server lacks the key that encrypted it. */
export async function openFile(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  { content, sha256 }: ConfigFile,
): Promise<OpenedFile> {
  if (!isSealed(content)) return { content, secret_keys: [] };
  return JSON.parse((await openOrgSecrets(db, plane, org_id)).open(content, fileBound(sha256))) as OpenedFile;
}
