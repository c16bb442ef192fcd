import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { root } from "../bin/launch.mjs";

const REGISTRY = "https://registry.npmjs.org";

/** The fields of package-lock.json that are read and written here. */
export interface Lockfile {
  packages: Record<string, LockedPackage>;
}

interface LockedPackage {
  /** Name in the registry, if the package is installed under an alias. */
  name?: string;
  version?: string;
  /** Address of the archive, or the folder of one of our packages. */
  resolved?: string;
  integrity?: string;
  link?: boolean;
  dev?: boolean;
  optional?: boolean;
  /** As in the package's own file: a list or a single name. */
  os?: string[] | string;
  cpu?: string[] | string;
  libc?: string[] | string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

interface MissingPackage {
  name: string;
  version: string;
  wanted_by: string;
}

/**
 * Returns optional packages that the lockfile requires but lacks. If a registry mirror lacks one platform's package, `npm install` omits it
 * silently, and then `npm ci` refuses the lockfile on every platform.
 */
export function findMissingOptional({ packages }: Lockfile): MissingPackage[] {
  return Object.entries(packages).flatMap(([wanted_by, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies)
      .filter(([name]) => !isReachable(packages, wanted_by, name))
      .map(([name, version]) => ({ name, version, wanted_by })),
  );
}

/**
 * Returns packages that npm would install on a supported platform (Linux with glibc on x64 or arm64) without verifying a checksum. Entries
 * added by `completeLockfile` have none, which is harmless because they are for other platforms.
 */
export function findUnverified({ packages }: Lockfile): string[] {
  return Object.entries(packages).flatMap(([location, { integrity, link, os, cpu, libc }]) => {
    const accepts = (value: string[] | string | undefined, ...names: string[]): boolean =>
      value === undefined || names.some((name) => [value].flat().includes(name));
    const installs = accepts(os, "linux") && accepts(cpu, "x64", "arm64") && accepts(libc, "glibc");
    return location.includes("node_modules/") && link !== true && integrity === undefined && installs ? [location] : [];
  });
}

/**
 * Returns the locations of packages whose archive address is missing or not at the npm registry. If npm has the address, it does not fetch
 * the list of the package's versions. A configured mirror replaces the registry's host (npm's setting `replace-registry-host`).
 */
export function findMisaddressed({ packages }: Lockfile): string[] {
  return Object.entries(packages).flatMap(([location, locked]) =>
    locked.integrity === undefined || locked.resolved === addressOf(location, locked) ? [] : [location],
  );
}

/** Corrects the archive addresses that are missing or wrong. Returns the locations of the changed entries. */
export function addAddresses(lockfile: Lockfile): string[] {
  const locations = findMisaddressed(lockfile);
  for (const location of locations) {
    const locked = lockfile.packages[location]!;
    const { resolved: _other, ...others } = locked;
    const fields = Object.entries(others);
    // Insert it where npm would: after `version`.
    fields.splice(fields.findIndex(([field]) => field === "version") + 1, 0, ["resolved", addressOf(location, locked)]);
    lockfile.packages[location] = Object.fromEntries(fields);
  }
  return locations;
}

function addressOf(location: string, { name = location.split("node_modules/").at(-1) ?? "", version }: LockedPackage): string {
  return `${REGISTRY}/${name}/-/${name.split("/").at(-1)}-${version}.tgz`;
}

/**
 * Adds an entry for each missing package, with enough fields for npm to skip it as a package of another platform. Returns the added names.
 * Throws if a missing package is required by a range, because its exact version is then unknown.
 */
export function completeLockfile(lockfile: Lockfile): string[] {
  const missing = findMissingOptional(lockfile);
  for (const { name, version, wanted_by } of missing) {
    if (!/^\d+\.\d+\.\d+[\w.+-]*$/.test(version)) throw new Error(`${wanted_by} wants ${name} ${version}: not one exact version`);
    const dev = lockfile.packages[wanted_by]?.dev === true;
    const { cpu, libc, os } = platformOf(name);
    // Write the fields in npm's order, so that the next npm run does not change the lockfile.
    const parts = { version, cpu, ...(dev ? { dev } : {}), ...(libc ? { libc } : {}), optional: true, ...(os ? { os } : {}) };
    lockfile.packages[`node_modules/${name}`] = parts;
  }
  const sorted = Object.entries(lockfile.packages).toSorted(([a], [b]) => a.localeCompare(b, "en"));
  lockfile.packages = Object.fromEntries(sorted);
  return missing.map(({ name }) => name);
}

/** Reports whether Node finds the package by searching node_modules from a folder upwards. */
function isReachable(packages: Lockfile["packages"], from: string, name: string): boolean {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    if (`${at === "" ? "" : `${at}/`}node_modules/${name}` in packages) return true;
    if (at === "") return false;
  }
}

const OPERATING_SYSTEMS = new Set(["android", "darwin", "freebsd", "linux", "openharmony", "win32"]);
const PROCESSORS = new Set(["arm", "arm64", "ia32", "ppc64", "riscv64", "s390x", "x64"]);

/**
 * Returns the platform in a package's name: `@oxlint/binding-linux-arm-musleabihf` is for linux, arm, musl. WebAssembly is for any system.
 */
function platformOf(name: string): { cpu: string[]; libc?: string[] | undefined; os?: string[] } {
  const words = (name.split("/").at(-1) ?? "").split("-");
  const os = words.filter((word) => OPERATING_SYSTEMS.has(word));
  if (words.includes("wasm32")) return { cpu: ["wasm32"] };
  const cpu = words.filter((word) => PROCESSORS.has(word));
  if (os.length !== 1 || cpu.length !== 1) throw new Error(`${name} does not name one platform`);
  return { cpu, libc: os[0] === "linux" ? libcOf(words) : undefined, os };
}

function libcOf(words: readonly string[]): string[] | undefined {
  if (words.some((word) => word.startsWith("musl"))) return ["musl"];
  return words.some((word) => word.startsWith("gnu")) ? ["glibc"] : undefined;
}

/** `node tools/run.mjs tools/lockfile.ts`, after `npm install` of a package. */
async function main(): Promise<void> {
  const file = path.join(root, "package-lock.json");
  const lockfile = JSON.parse(await readFile(file, "utf8")) as Lockfile;
  const changed = [
    ...completeLockfile(lockfile).map((name) => `added ${name}`),
    ...addAddresses(lockfile).map((location) => `added the address of ${location}`),
  ];
  if (changed.length > 0) await writeFile(file, `${JSON.stringify(lockfile, null, 2)}\n`);
  process.stdout.write(`${changed.length === 0 ? "package-lock.json is complete" : changed.join("\n")}\n`);
}

// Compares paths because import.meta.main is false if the launcher, when its own Node is new enough, imports this file.
if (process.argv[1] === import.meta.filename) await main();
