import type { BigIntStats } from "node:fs";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import path from "node:path";
import type { Logger } from "pino";
import { type Manifest, MANIFEST_BYTES_MAX, readManifest } from "./manifest.ts";

/** The content of a directory of packages. */
export interface HostedFiles {
  manifest: Manifest;
  /** Public key of the apt repository, in the binary format of OpenPGP. */
  apt_key: Buffer;
  /** Public key that signs SHA256SUMS, in PEM. */
  signing_key: string;
  /** Real path of each public file, by the decoded path of its URL. */
  files: ReadonlyMap<string, string>;
}

const MANIFEST = "manifest.json";
const APT_KEY = "apt/roamfleet.gpg";
const SIGNING_KEY = "signing-key.pem";
const SIGNING_KEY_PEM = /^-----BEGIN PUBLIC KEY-----\n[A-Za-z0-9+/=\n]+-----END PUBLIC KEY-----\n?$/;
/** Further public files of the directory. A file that is in none of these lists, such as a private key, is not served. */
const PUBLIC_FILES = [MANIFEST, "SHA256SUMS", "SHA256SUMS.sig", SIGNING_KEY];
const PUBLIC_APT_DIRECTORIES = ["dists", "pool"];
const KEY_BYTES_MAX = 64 * 1024;
export const APT_FILES_MAX = 10_000;

/**
 * A directory of packages. Lists its files when manifest.json has changed, so new packages are served without a restart. A request can name
 * only a listed file, so no request can read another file.
 */
export class PackageDirectory {
  readonly #directory: string;
  readonly #log: Pick<Logger, "info" | "warn">;
  #stamp: string | undefined;
  #listed: Promise<HostedFiles | undefined> = Promise.resolve(undefined);

  constructor(directory: string, log: Pick<Logger, "info" | "warn">) {
    this.#directory = path.resolve(directory);
    this.#log = log;
  }

  /** Returns the files; undefined if the directory is missing or not valid, which is logged. */
  async read(): Promise<HostedFiles | undefined> {
    const stamp = await stat(path.join(this.#directory, MANIFEST), { bigint: true }).then(stampOf, () => "absent");
    if (stamp !== this.#stamp) {
      this.#stamp = stamp;
      this.#listed = this.#list();
    }
    return await this.#listed;
  }

  async #list(): Promise<HostedFiles | undefined> {
    try {
      const listed = await listPackages(this.#directory);
      this.#log.info({ directory: this.#directory, version: listed.manifest.version, files: listed.files.size }, "hosting packages");
      return listed;
    } catch (error) {
      this.#log.warn({ directory: this.#directory, reason: (error as Error).message }, "cannot host the packages in this directory");
      return undefined;
    }
  }
}

/** Identifies one state of a file. The change time is included, since reproducible builds set the modification time. */
export const stampOf = ({ ino, size, ctimeNs }: Pick<BigIntStats, "ino" | "size" | "ctimeNs">): string =>
  [ino, size, ctimeNs].map((number) => number.toString(36)).join("-");

/** Lists the public files of a directory of packages. Throws an Error that states what is wrong with the directory. */
export async function listPackages(directory: string): Promise<HostedFiles> {
  const root = await realpath(directory);
  const read = (name: string, bytes_max: number): Promise<Buffer> => readPart(root, name, bytes_max);
  const manifest = readManifest((await read(MANIFEST, MANIFEST_BYTES_MAX)).toString());
  const apt_key = await read(APT_KEY, KEY_BYTES_MAX);
  const signing_key = (await read(SIGNING_KEY, KEY_BYTES_MAX)).toString();
  if (!SIGNING_KEY_PEM.test(signing_key)) throw new Error(`${SIGNING_KEY} is not a public key in PEM`);
  const apt_files = (await Promise.all(PUBLIC_APT_DIRECTORIES.map((name) => filesBelow(root, `apt/${name}`)))).flat();
  if (apt_files.length > APT_FILES_MAX) throw new Error(`apt has more than ${APT_FILES_MAX} files`);
  const files = new Map<string, string>();
  const add = async (url: string, name: string): Promise<void> => {
    const file = await realpath(path.join(root, name)).catch(() => undefined);
    // A symbolic link must not publish a file of another directory.
    if (file?.startsWith(root + path.sep)) files.set(url, file);
  };
  for (const name of [...PUBLIC_FILES, ...manifest.files]) await add(`/packages/${name}`, name);
  for (const name of [APT_KEY, ...apt_files]) await add(`/${name}`, name);
  const missing = manifest.files.find((name) => !files.has(`/packages/${name}`));
  if (missing !== undefined) throw new Error(`${missing} is in manifest.json, but not in the directory`);
  return { manifest, apt_key, signing_key, files };
}

async function readPart(root: string, name: string, bytes_max: number): Promise<Buffer> {
  const file = path.join(root, name);
  const found = await stat(file).catch(() => undefined);
  if (found?.isFile() !== true) throw new Error(`${name} is missing`);
  if (found.size > bytes_max) throw new Error(`${name} has more than ${bytes_max} bytes`);
  return await readFile(file);
}

async function filesBelow(root: string, name: string): Promise<string[]> {
  const entries = await readdir(path.join(root, name), { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) throw new Error(`${name} is missing`);
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)));
}
