import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { chmod, lutimes, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { type BuildContext, epochOf, PackagingError, run } from "./build-context.ts";

const DIRECTORY_MODE = 0o755;
const PROGRAM_MODE = 0o755;
const FILE_MODE = 0o644;

/** Gives everything below a directory the time of the build, and modes that do not depend on the umask. */
export async function normalize(directory: string, context: BuildContext): Promise<void> {
  const time = epochOf(context);
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await chmod(file, DIRECTORY_MODE);
    else if (entry.isFile()) await chmod(file, ((await stat(file)).mode & 0o111) === 0 ? FILE_MODE : PROGRAM_MODE);
    await lutimes(file, time, time);
  }
  await chmod(directory, DIRECTORY_MODE);
  await lutimes(directory, time, time);
}

/** Writes a reproducible .tar.gz of the content of a normalized directory. `prefix`: directory of the archive that contains all files. */
export async function writeTarball(directory: string, file: string, context: BuildContext, prefix?: string): Promise<void> {
  const names = (await readdir(directory)).toSorted();
  const moved = prefix === undefined ? [] : [`--transform=s,^,${prefix}/,S`];
  const owner = ["--owner=0", "--group=0", "--numeric-owner"];
  const args = ["--create", "--format=gnu", "--sort=name", ...owner, ...moved, "--directory", directory, "--", ...names];
  const tar = spawn("tar", args, { env: { ...process.env, LC_ALL: "C" }, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve, reject) => tar.on("error", reject).on("close", resolve));
  await Promise.all([pipeline(tar.stdout, createGzip({ level: context.is_fast ? 1 : 9 }), createWriteStream(file)), ended]);
  if ((await ended) !== 0) throw new PackagingError(`tar could not write ${file}`);
}

/** Maintainer scripts that dpkg runs, by file name, without the line `#!…` of the shell. */
export type Scripts = Partial<Record<"preinst" | "postinst" | "prerm" | "postrm", string>>;

export interface Deb {
  /** Fields of the control file except Version, Installed-Size and Maintainer. */
  control: Record<string, string>;
  scripts?: Scripts;
  /** The files are compressed already, so they are stored without further compression. */
  is_compressed?: boolean;
}

/** Writes a reproducible .deb of the content of a directory, to which it adds DEBIAN/. Returns the size of the installed files in bytes. */
export async function writeDeb(
  directory: string,
  file: string,
  { control, scripts = {}, is_compressed }: Deb,
  context: BuildContext,
): Promise<number> {
  const { sums, bytes } = await summarize(directory);
  const about = path.join(directory, "DEBIAN");
  await mkdir(about, { recursive: true });
  const fields = {
    ...control,
    Version: context.version,
    Maintainer: "The Roamfleet authors <maintainers@roamfleet.invalid>",
    "Installed-Size": String(Math.ceil(bytes / 1_024)),
  };
  const { Package: name = "", Description: description = "", ...rest } = fields as Record<string, string>;
  const ordered = { Package: name, ...rest, Description: description };
  await writeFile(
    path.join(about, "control"),
    Object.entries(ordered)
      .map(([key, value]) => `${key}: ${value}\n`)
      .join(""),
  );
  await writeFile(path.join(about, "md5sums"), sums);
  for (const [script, text] of Object.entries(scripts)) await writeFile(path.join(about, script), text, { mode: PROGRAM_MODE });
  await normalize(directory, context);
  const compression = is_compressed === true ? ["-Znone"] : context.is_fast ? ["-Zgzip", "-z1"] : ["-Zxz", "-z6"];
  await run("dpkg-deb", ["--root-owner-group", ...compression, "--build", directory, file], {
    // The number of threads changes the result of xz, so it must not depend on the machine.
    env: { SOURCE_DATE_EPOCH: String(epochOf(context)), DPKG_DEB_THREADS_MAX: "2" },
  });
  return bytes;
}

/** Returns the content of DEBIAN/md5sums, with which `dpkg --verify` finds changed files, and the size of all files. */
async function summarize(directory: string): Promise<{ sums: string; bytes: number }> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)));
  let sums = "";
  let bytes = 0;
  for (const name of names.toSorted()) {
    sums += `${await digestFile(path.join(directory, name), "md5")}  ${name}\n`;
    bytes += (await stat(path.join(directory, name))).size;
  }
  return { sums, bytes };
}

/** Returns the hexadecimal digest of a file. */
export async function digestFile(file: string, algorithm = "sha256"): Promise<string> {
  const hash = createHash(algorithm);
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Reads a script of a package and sets `@VERSION@` in it. */
export const readScript = async (file: string, { version }: BuildContext): Promise<string> =>
  (await readFile(file, "utf8")).replaceAll("@VERSION@", version);
