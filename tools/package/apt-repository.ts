import type { KeyObject } from "node:crypto";
import { link, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { digestFile } from "./archives.ts";
import { ARCHITECTURES, type BuildContext, epochOf, run } from "./build-context.ts";
import type { Packaged } from "./manifest.ts";
import { keyring, signDetached, signInline } from "./openpgp.ts";

const SUITE = "stable";
const USER = "Roamfleet packages";

/**
 * Writes `apt/`, a signed repository of the .deb files of a directory of packages: `deb [signed-by=…/roamfleet.gpg] <url>/apt stable main`. Its
 * pool has hard links to the .deb files. Packages of architecture `all` are in the index of each architecture.
 */
export async function writeAptRepository(
  directory: string,
  files: readonly Packaged[],
  key: KeyObject,
  context: BuildContext,
): Promise<void> {
  const apt = path.join(directory, "apt");
  const pool = path.join(apt, "pool", "main");
  await mkdir(pool, { recursive: true });
  const debs = files.filter(({ kind }) => kind === "deb").toSorted((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name } of debs) await link(path.join(directory, name), path.join(pool, name));
  const suite = path.join(apt, "dists", SUITE);
  for (const { deb } of ARCHITECTURES) {
    const fitting = debs.filter(({ arch }) => arch === deb || arch === "all");
    const index = (await Promise.all(fitting.map(({ name }) => describe(path.join(pool, name), `pool/main/${name}`)))).join("\n");
    const place = path.join(suite, "main", `binary-${deb}`);
    await mkdir(place, { recursive: true });
    await writeFile(path.join(place, "Packages"), index);
    await writeFile(path.join(place, "Packages.gz"), gzipSync(index, { level: 9 }));
  }
  const release = await releaseText(suite, context);
  await writeFile(path.join(suite, "Release"), release);
  await writeFile(path.join(suite, "Release.gpg"), signDetached(release, key, epochOf(context)));
  await writeFile(path.join(suite, "InRelease"), signInline(release, key, epochOf(context)));
  await writeFile(path.join(apt, "roamfleet.gpg"), keyring(key, USER));
}

/** Returns the entry of a .deb in `Packages`: its control file, path, size and checksum. */
async function describe(file: string, name: string): Promise<string> {
  const control = await run("dpkg-deb", ["--field", file]);
  return `${control.trimEnd()}\nFilename: ${name}\nSize: ${(await stat(file)).size}\nSHA256: ${await digestFile(file)}\n`;
}

async function releaseText(suite: string, context: BuildContext): Promise<string> {
  const entries = await readdir(suite, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => path.relative(suite, path.join(entry.parentPath, entry.name)));
  const sums: string[] = [];
  for (const name of names.toSorted()) {
    const file = path.join(suite, name);
    sums.push(` ${await digestFile(file)} ${(await stat(file)).size} ${name}`);
  }
  const fields = {
    Origin: "Roamfleet",
    Label: "Roamfleet",
    Suite: SUITE,
    Codename: SUITE,
    Version: context.version,
    Date: new Date(epochOf(context) * 1_000).toUTCString().replace("GMT", "+0000"),
    Architectures: ARCHITECTURES.map(({ deb }) => deb).join(" "),
    Components: "main",
    Description: "Packages of Roamfleet",
  };
  const head = Object.entries(fields).map(([field, value]) => `${field}: ${value}`);
  return `${[...head, "SHA256:", ...sums].join("\n")}\n`;
}
