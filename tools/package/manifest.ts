import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { digestFile } from "./archives.ts";
import { type BuildContext, PackagingError } from "./build-context.ts";

/** One file in a directory of packages. */
export interface Packaged {
  name: string;
  kind: "deb" | "tarball" | "npm" | "sbom";
  package: string;
  arch: "amd64" | "arm64" | "all";
}

/** Reads an Ed25519 private key in PEM (PKCS #8). */
export async function readSigningKey(file: string): Promise<KeyObject> {
  try {
    const key = createPrivateKey(await readFile(file));
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch (error) {
    throw new PackagingError(`${file} contains no readable private key: ${(error as Error).message}`, { cause: error });
  }
  throw new PackagingError(`${file} is no Ed25519 key: create one with openssl genpkey -algorithm ed25519 -out ${file}`);
}

export const newSigningKey = (): KeyObject => generateKeyPairSync("ed25519").privateKey;

/**
 * Writes manifest.json, SHA256SUMS, its signature SHA256SUMS.sig (Ed25519, base64) and the public key signing-key.pem. SHA256SUMS covers all
 * files and the manifest.
 */
export async function writeManifest(directory: string, files: readonly Packaged[], key: KeyObject, context: BuildContext): Promise<void> {
  const listed = [];
  for (const file of files.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const place = path.join(directory, file.name);
    listed.push({
      name: file.name,
      kind: file.kind,
      package: file.package,
      arch: file.arch,
      size: (await stat(place)).size,
      sha256: await digestFile(place),
    });
  }
  const { version, commit, built_at } = context;
  const manifest = path.join(directory, "manifest.json");
  await writeFile(manifest, `${JSON.stringify({ version, commit, built_at, files: listed }, null, 2)}\n`);
  const lines = [...listed, { name: "manifest.json", sha256: await digestFile(manifest) }].map(
    ({ name, sha256 }) => `${sha256}  ${name}\n`,
  );
  const sums = lines.join("");
  await writeFile(path.join(directory, "SHA256SUMS"), sums);
  await writeFile(path.join(directory, "SHA256SUMS.sig"), `${sign(null, Buffer.from(sums), key).toString("base64")}\n`);
  await writeFile(path.join(directory, "signing-key.pem"), createPublicKey(key).export({ type: "spki", format: "pem" }));
}
