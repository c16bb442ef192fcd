import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { LRUCache } from "lru-cache";
import { readIfPresent, writeDurably } from "./files.ts";

/** Bytes of a key: AES-256. */
export const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const CIPHER = "aes-256-gcm";

/** Associated data of an encrypted text. Decryption succeeds only with the same parts in the same order. */
export type Bound = readonly (string | number)[];

// The parts are encoded as JSON, so that two different lists never give the same bytes.
const associated = (bound: Bound): Buffer => Buffer.from(JSON.stringify(["roamfleet", 1, ...bound]));

/** Encrypts and authenticates. Returns base64url of nonce, ciphertext and tag. The nonce is random: 2^32 texts per key are safe. */
export function seal(key: Buffer, plain: Uint8Array, bound: Bound): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES }).setAAD(associated(bound));
  return Buffer.concat([iv, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString("base64url");
}

/** Decrypts a text that `seal` returned. Throws if the key is wrong, or if the text or its associated data was changed. */
export function unseal(key: Buffer, sealed: string, bound: Bound): Buffer {
  const bytes = Buffer.from(sealed, "base64url");
  if (bytes.length < IV_BYTES + TAG_BYTES) throw new Error("the sealed text is too short");
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(associated(bound))
    .setAuthTag(bytes.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
}

/** Maximum decrypted data keys in the cache. Each org has a current data key and may have earlier ones. */
const OPENED_KEYS_MAX = 10_000;
const KEYS_MAX = 16;

interface MasterKeySettings {
  data_directory: string;
  /** The keys themselves, in the format of ROAMFLEET_SECRETS_KEY. */
  secrets_key?: string | undefined;
  /** A file with the keys. */
  secrets_key_file?: string | undefined;
}

export class MasterKeyError extends Error {}

/** A data key as the database stores it. */
export interface WrappedKey {
  master_key_id: string;
  wrapped: string;
}

/**
 * The master keys, which encrypt the data keys of the orgs. The first one encrypts new data keys. The others decrypt the data keys that
 * they encrypted earlier, until the first one re-encrypts these.
 */
export class MasterKeys {
  readonly current_id: string;
  readonly #keys: ReadonlyMap<string, Buffer>;
  readonly #current: Buffer;
  readonly #opened = new LRUCache<string, Buffer>({ max: OPENED_KEYS_MAX });
  readonly #digest_key: Buffer;

  constructor(keys: readonly Buffer[]) {
    const [current] = keys;
    if (current === undefined) throw new Error("no master key");
    this.#current = current;
    this.#keys = new Map(keys.map((key) => [masterKeyId(key), key]));
    this.current_id = masterKeyId(current);
    this.#digest_key = Buffer.from(hkdfSync("sha256", current, "", "roamfleet digest of requests", KEY_BYTES));
  }

  wrap(data_key: Buffer, bound: Bound): WrappedKey {
    return { master_key_id: this.current_id, wrapped: seal(this.#current, data_key, ["data key", ...bound]) };
  }

  /** Decrypts a data key. Returns undefined if this server does not have its master key. Throws if the stored key was tampered with. */
  unwrap({ master_key_id, wrapped }: WrappedKey, bound: Bound): Buffer | undefined {
    const key = this.#keys.get(master_key_id);
    if (key === undefined) return undefined;
    const name = JSON.stringify([master_key_id, wrapped, ...bound]);
    let data_key = this.#opened.get(name);
    if (data_key === undefined) {
      data_key = unseal(key, wrapped, ["data key", ...bound]);
      this.#opened.set(name, data_key);
    }
    return data_key;
  }

  /** Returns a keyed digest: without the key, even a guessable text cannot be recovered from it. */
  digest(bytes: Uint8Array): Buffer {
    return createHmac("sha256", this.#digest_key).update(bytes).digest();
  }
}

/** Returns an id that distinguishes keys and reveals nothing about them. */
const masterKeyId = (key: Buffer): string => hash("sha256", Buffer.concat([Buffer.from("roamfleet master key "), key])).slice(0, 16);

export const masterKeyFile = (data_directory: string): string => path.join(data_directory, "secrets.key");

/** Reads the keys from the settings, else from the data directory. Creates a key there if there is none. */
export async function openMasterKeys({ data_directory, secrets_key, secrets_key_file }: MasterKeySettings): Promise<MasterKeys> {
  if (secrets_key !== undefined) return parseMasterKeys(secrets_key, "ROAMFLEET_SECRETS_KEY");
  if (secrets_key_file !== undefined) {
    const text = await readFile(secrets_key_file, "utf8").catch((error: unknown) => {
      throw new MasterKeyError(`the file of the secrets key, ${secrets_key_file}, cannot be read`, { cause: error });
    });
    return parseMasterKeys(text, secrets_key_file);
  }
  const file = masterKeyFile(data_directory);
  const text = await readIfPresent(file).catch((error: unknown) => {
    throw new MasterKeyError(`${file} cannot be read`, { cause: error });
  });
  return parseMasterKeys(text ?? (await makeKeyFile(file)), file);
}

/** Parses keys of 32 bytes, each as 64 hexadecimal digits or as base64, separated by spaces, commas or newlines. */
export function parseMasterKeys(text: string, where: string): MasterKeys {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  const keys = words.map((word) => Buffer.from(word, /^[0-9a-f]{64}$/i.test(word) ? "hex" : "base64"));
  // The message does not contain the words: they may be keys.
  if (keys.length === 0 || keys.length > KEYS_MAX || keys.some(({ length }) => length !== KEY_BYTES))
    throw new MasterKeyError(
      `${where} must contain 1 to ${KEYS_MAX} keys of ${KEY_BYTES} bytes, each as 64 hexadecimal digits or as base64, such as \`openssl rand -hex 32\` prints`,
    );
  return new MasterKeys(keys);
}

/** Creates a key and writes it to `file`, atomically and durably, before any data is encrypted with it. */
async function makeKeyFile(file: string): Promise<string> {
  const text = `${randomBytes(KEY_BYTES).toString("hex")}\n`;
  await mkdir(path.dirname(file), { recursive: true, mode: 0o711 });
  await writeDurably(file, text, 0o600);
  return text;
}
