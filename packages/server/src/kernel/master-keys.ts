import { createHmac, hash, hkdfSync, randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import path from "node:path";
import { LRUCache } from "lru-cache";
import { type Bound, KEY_BYTES, seal, unseal } from "./sealing.ts";
import { writeDurably } from "./write-durably.ts";

/** Data keys that are kept opened: one an org, and those before it. */
const OPENED_KEYS_MAX = 10_000;
const KEYS_MAX = 16;

export interface MasterKeySettings {
  data_directory: string;
  /** Keys themselves, as ROAMFLEET_SECRETS_KEY holds them. */
  secrets_key?: string | undefined;
  /** A file that holds them. */
  secrets_key_file?: string | undefined;
}

export class MasterKeyError extends Error {}

/** A data key as the database holds it. */
export interface WrappedKey {
  master_key_id: string;
  wrapped: string;
}

/**
 * The keys that encrypt each org's data keys. The first is used for what is new; those behind it still open what they
 * once encrypted, until it is encrypted anew.
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

  /** Undefined: encrypted with a master key that this server has not got. Throws when the database was tampered with. */
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

  /** A digest that tells nothing of a guessable text to whoever has not got the key. */
  digest(bytes: Uint8Array): Buffer {
    return createHmac("sha256", this.#digest_key).update(bytes).digest();
  }
}

/** Tells keys apart, and tells nothing of them. */
const masterKeyId = (key: Buffer): string => hash("sha256", Buffer.concat([Buffer.from("roamfleet master key "), key])).slice(0, 16);

export const masterKeyFile = (data_directory: string): string => path.join(data_directory, "secrets.key");

/** Reads the keys of the settings, else those of the data directory, where one is made when there is none. */
export async function openMasterKeys({ data_directory, secrets_key, secrets_key_file }: MasterKeySettings): Promise<MasterKeys> {
  if (secrets_key !== undefined) return parseMasterKeys(secrets_key, "ROAMFLEET_SECRETS_KEY");
  if (secrets_key_file !== undefined) {
    const text = await readFile(secrets_key_file, "utf8").catch((error: unknown) => {
      throw new MasterKeyError(`the file of the secrets key, ${secrets_key_file}, cannot be read`, { cause: error });
    });
    return parseMasterKeys(text, secrets_key_file);
  }
  const file = masterKeyFile(data_directory);
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new MasterKeyError(`${file} cannot be read`, { cause: error });
  });
  return parseMasterKeys(text ?? (await makeKeyFile(file)), file);
}

/** 32 bytes each, as 64 hexadecimal digits or as base64, with spaces, commas or line ends between them. */
export function parseMasterKeys(text: string, where: string): MasterKeys {
  const words = text.split(/[\s,]+/).filter((word) => word !== "");
  const keys = words.map((word) => Buffer.from(word, /^[0-9a-f]{64}$/i.test(word) ? "hex" : "base64"));
  // The words themselves are not in the message: they may be keys.
  if (keys.length === 0 || keys.length > KEYS_MAX || keys.some(({ length }) => length !== KEY_BYTES))
    throw new MasterKeyError(
      `${where} must hold 1 to ${KEYS_MAX} keys of ${KEY_BYTES} bytes, each as 64 hexadecimal digits or as base64, such as \`openssl rand -hex 32\` makes`,
    );
  return new MasterKeys(keys);
}

/** Whole and durable before anything is encrypted with it. */
async function makeKeyFile(file: string): Promise<string> {
  const text = `${randomBytes(KEY_BYTES).toString("hex")}\n`;
  await mkdir(path.dirname(file), { recursive: true, mode: 0o711 });
  await writeDurably(file, text, 0o600);
  return text;
}
