import { execFile } from "node:child_process";
import { generateKeyPairSync, hash, sign } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

const run = promisify(execFile);
const TIMEOUT = { timeout: 60_000 };
const ARCHITECTURES = ["amd64", "arm64"] as const;

export interface PackagesDirectory extends AsyncDisposable {
  directory: string;
  /** Removes the directory's content and writes packages of another version, signed by the same keys. */
  rewrite(version: string): Promise<void>;
}

/**
 * Creates a directory of packages in the format of `npm run package`: real .deb files by dpkg-deb, and a repository that apt accepts, signed
 * by gpg. The packages contain one text file, not the agent.
 */
export async function createPackagesDirectory(version = "0.1.0"): Promise<PackagesDirectory> {
  const place = await mkdtemp(path.join(tmpdir(), "rf-packages-"));
  const directory = path.join(place, "packages");
  const home = path.join(place, "gpg");
  await mkdir(home, { mode: 0o700 });
  const gpg = (...words: string[]): Promise<unknown> =>
    run("gpg", ["--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", ...words], TIMEOUT);
  await gpg("--quick-gen-key", "packages@fleet.test", "ed25519", "sign", "never");
  const keys = generateKeyPairSync("ed25519");
  const rewrite = async (wanted: string): Promise<void> => {
    await rm(directory, { recursive: true, force: true });
    const debs = await Promise.all(ARCHITECTURES.map((arch) => buildDeb(place, wanted, arch)));
    await writeRepository(directory, debs, gpg);
    await gpg("--yes", "--output", path.join(directory, "apt/roamfleet.gpg"), "--export", "packages@fleet.test");
    const files = debs.map(({ name, arch, bytes }) => ({ ...entryOf(name, bytes), kind: "deb", package: "roamfleet-agent", arch }));
    for (const { name, bytes } of debs) await writeFile(path.join(directory, name), bytes);
    for (const arch of ARCHITECTURES) {
      const name = `roamfleet-agent_${wanted}_${arch}.tar.gz`;
      const bytes = gzipSync(`tarball ${wanted} ${arch}`);
      await writeFile(path.join(directory, name), bytes);
      files.push({ ...entryOf(name, bytes), kind: "tarball", package: "roamfleet-agent", arch });
    }
    const sums = files.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join("");
    await writeFile(path.join(directory, "SHA256SUMS"), sums);
    await writeFile(path.join(directory, "SHA256SUMS.sig"), `${sign(null, Buffer.from(sums), keys.privateKey).toString("base64")}\n`);
    await writeFile(path.join(directory, "signing-key.pem"), keys.publicKey.export({ type: "spki", format: "pem" }));
    const manifest = { version: wanted, commit: "0123456789abcdef0123456789abcdef01234567", built_at: "2026-11-23T12:00:00Z", files };
    await writeFile(path.join(directory, "manifest.json"), JSON.stringify(manifest));
  };
  await rewrite(version);
  return {
    directory,
    rewrite,
    async [Symbol.asyncDispose]() {
      // The agent of gpg runs in the background until it is stopped.
      await run("gpgconf", ["--homedir", home, "--kill", "all"], TIMEOUT).catch(() => {});
      await rm(place, { recursive: true, force: true });
    },
  };
}

const entryOf = (name: string, bytes: Buffer): { name: string; size: number; sha256: string } => ({
  name,
  size: bytes.length,
  sha256: hash("sha256", bytes),
});

interface Deb {
  name: string;
  arch: string;
  control: string;
  bytes: Buffer;
}

async function buildDeb(place: string, version: string, arch: string): Promise<Deb> {
  const root = path.join(place, `deb-${arch}`);
  await rm(root, { recursive: true, force: true });
  await mkdir(path.join(root, "DEBIAN"), { recursive: true, mode: 0o755 });
  const control = `Package: roamfleet-agent\nVersion: ${version}\nArchitecture: ${arch}\nMaintainer: Test <test@fleet.test>\nDescription: test package\n`;
  await writeFile(path.join(root, "DEBIAN/control"), control);
  await mkdir(path.join(root, "opt/roamfleet/agent"), { recursive: true });
  await writeFile(path.join(root, "opt/roamfleet/agent/version"), `${version}\n`);
  const name = `roamfleet-agent_${version}_${arch}.deb`;
  await run("dpkg-deb", ["--root-owner-group", "-Zgzip", "-b", root, path.join(place, name)], TIMEOUT);
  return { name, arch, control, bytes: await readFile(path.join(place, name)) };
}

async function writeRepository(directory: string, debs: readonly Deb[], gpg: (...words: string[]) => Promise<unknown>): Promise<void> {
  const pool = "pool/main/r/roamfleet-agent";
  const dist = path.join(directory, "apt/dists/stable");
  await mkdir(path.join(directory, "apt", pool), { recursive: true });
  const sums: string[] = [];
  for (const { name, arch, control, bytes } of debs) {
    await writeFile(path.join(directory, "apt", pool, name), bytes);
    const { size, sha256 } = entryOf(name, bytes);
    const list = Buffer.from(`${control}Filename: ${pool}/${name}\nSize: ${size}\nSHA256: ${sha256}\n\n`);
    await mkdir(path.join(dist, `main/binary-${arch}`), { recursive: true });
    for (const [suffix, content] of [
      ["", list],
      [".gz", gzipSync(list)],
    ] as const) {
      const relative = `main/binary-${arch}/Packages${suffix}`;
      await writeFile(path.join(dist, relative), content);
      sums.push(` ${hash("sha256", content)} ${content.length} ${relative}`);
    }
  }
  const release = `Origin: Roamfleet\nSuite: stable\nCodename: stable\nDate: ${new Date().toUTCString()}\nArchitectures: amd64 arm64\nComponents: main\nSHA256:\n${sums.join("\n")}\n`;
  await writeFile(path.join(dist, "Release"), release);
  await gpg("--yes", "--output", path.join(dist, "InRelease"), "--clear-sign", path.join(dist, "Release"));
  await gpg("--yes", "--output", path.join(dist, "Release.gpg"), "--armor", "--detach-sign", path.join(dist, "Release"));
}
