import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { PackagingError, run } from "./build-context.ts";

const CACHE = path.join(root, "node_modules", ".cache", "package");

interface Locked {
  version: string;
  integrity: string;
}

/**
 * Returns the directory of an installed npm package. npm does not install packages of the other architecture. Such a package is downloaded
 * once in the version of package-lock.json, verified by the checksum there, and kept in node_modules/.cache.
 */
export async function findPackage(name: string): Promise<string> {
  const { version, integrity } = await readLocked(name);
  const installed = path.join(root, "node_modules", name);
  if (existsSync(path.join(installed, "package.json"))) return installed;
  const cached = path.join(CACHE, `${name.replace("/", "__")}-${version}`);
  if (existsSync(cached)) return cached;
  await mkdir(CACHE, { recursive: true });
  const download = await mkdtemp(path.join(CACHE, ".new-"));
  try {
    await runNpm(["pack", `${name}@${version}`, "--silent", "--pack-destination", download]);
    const [archive] = await readdir(download);
    if (archive === undefined) throw new PackagingError(`npm pack ${name}@${version} wrote no file`);
    const [algorithm = "", expected] = integrity.split("-", 1)[0] === "sha512" ? ["sha512", integrity.slice("sha512-".length)] : [];
    const found =
      algorithm &&
      createHash(algorithm)
        .update(await readFile(path.join(download, archive)))
        .digest("base64");
    if (!found || found !== expected)
      throw new PackagingError(`${name}@${version} from the npm registry does not have the checksum of package-lock.json`);
    await run("tar", ["--extract", "--no-same-owner", "--file", path.join(download, archive), "--directory", download]);
    await rename(path.join(download, "package"), cached).catch((error: NodeJS.ErrnoException) => {
      // A concurrent build has created the directory first.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
    return cached;
  } finally {
    await rm(download, { recursive: true, force: true });
  }
}

async function readLocked(name: string): Promise<Locked> {
  const { packages } = JSON.parse(await readFile(path.join(root, "package-lock.json"), "utf8")) as { packages: Record<string, Locked> };
  const locked = packages[`node_modules/${name}`];
  if (locked === undefined) throw new PackagingError(`package-lock.json does not contain ${name}`);
  return locked;
}

/** Runs the npm that started this program, or the one in PATH. */
export function runNpm(args: readonly string[], cwd = root): Promise<string> {
  const script = process.env.npm_execpath;
  const is_npm = script !== undefined && path.basename(script) === "npm-cli.js";
  return is_npm ? run(process.execPath, [script, ...args], { cwd }) : run("npm", args, { cwd });
}
