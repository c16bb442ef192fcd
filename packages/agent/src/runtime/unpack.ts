import fs from "node:fs";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { Transform } from "node:stream";
import { createGunzip } from "node:zlib";
import * as tar from "tar-stream";
import { freeBytes, syncDirectory } from "../disk/write-atomically.ts";
import { failureOf, StepFailure, throwIfAborted } from "./failure.ts";
import {
  DISK_FREE_FLOOR_BYTES,
  ENTRY_NAME_BYTES_MAX,
  ENTRY_PATH_BYTES_MAX,
  FSYNC_PARALLEL_MAX,
  UNPACK_ALLOWANCE_BYTES,
  UNPACK_BYTES_MAX,
  UNPACK_ENTRIES_MAX,
  UNPACK_RATIO_MAX,
  UNPACK_SPACE_CHECK_BYTES,
} from "./limits.ts";

interface UnpackBounds {
  entries: number;
  bytes: number;
}

/** Returns the limits for an archive of this packed size. */
export const unpackBounds = (packed_bytes: number): UnpackBounds => ({
  entries: UNPACK_ENTRIES_MAX,
  bytes: Math.min(UNPACK_BYTES_MAX, UNPACK_ALLOWANCE_BYTES + UNPACK_RATIO_MAX * packed_bytes),
});

const refuse = (message: string): StepFailure => new StepFailure("rejected_by_robot", `unsafe archive: ${message}`);

type Entry = tar.Extract extends AsyncIterable<infer Source> ? Source : never;

interface Links {
  hard: { file: string; target: string }[];
  symbolic: { file: string; target: string }[];
}

/**
 * Unpacks a tar.gz into `directory`, which must not exist, and makes it durable. Never writes outside of `directory`: it checks each name
 * before it writes, creates files with O_EXCL, and creates links last, so that no file can be written through a link. Throws StepFailure
 * `rejected_by_robot` that names the entry.
 */
export async function unpackBundle(archive: string, directory: string, bounds: UnpackBounds, signal: AbortSignal): Promise<void> {
  fs.mkdirSync(directory, { mode: 0o755 });
  const extract = tar.extract();
  const links: Links = { hard: [], symbolic: [] };
  const names = new EntryNames();
  try {
    const feed = pipeline(fs.createReadStream(archive), createGunzip(), countBytes(bounds, directory), extract, { signal });
    const read = readEntries(extract, directory, { bounds, names, links, signal });
    await bothEnded(read, feed);
    makeLinks(directory, names, links);
    await syncTree(directory, signal);
  } catch (error) {
    extract.destroy();
    fs.rmSync(directory, { recursive: true, force: true });
    throwIfAborted(signal);
    throw failureOf(error, "rejected_by_robot");
  }
}

/** Waits until all have ended, since none may still write during the cleanup. Then throws the first failure, which is the cause. */
async function bothEnded(...works: Promise<void>[]): Promise<void> {
  const failures: unknown[] = [];
  await Promise.all(works.map((work) => work.catch((error: unknown) => failures.push(error))));
  if (failures.length > 0) throw failures[0];
}

/**
 * Limits the total of unpacked bytes, including padding and headers: a stream of zeros has no entries but may be of any size. Also checks
 * the free disk space.
 */
function countBytes(bounds: UnpackBounds, directory: string): Transform {
  let bytes = 0;
  let next_check = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > bounds.bytes) return done(refuse(`it unpacks to more than ${bounds.bytes} bytes`));
      if (bytes < next_check) return done(null, chunk);
      next_check = bytes + UNPACK_SPACE_CHECK_BYTES;
      freeBytes(directory).then((free) => {
        if (free < DISK_FREE_FLOOR_BYTES)
          done(new StepFailure("insufficient_disk", `only ${free} bytes are free, but ${DISK_FREE_FLOOR_BYTES} must stay free`));
        else done(null, chunk);
      }, done);
    },
  });
}

interface Reading {
  bounds: UnpackBounds;
  names: EntryNames;
  links: Links;
  signal: AbortSignal;
}

async function readEntries(extract: tar.Extract, directory: string, reading: Reading): Promise<void> {
  let count = 0;
  for await (const entry of extract) {
    throwIfAborted(reading.signal);
    count += 1;
    if (count > reading.bounds.entries) throw refuse(`it has more than ${reading.bounds.entries} entries`);
    const parts = checkEntryPath(entry.header.name);
    if (parts.length === 0) {
      if (entry.header.type !== "directory") throw refuse(`entry ${quote(entry.header.name)} is the root folder, but not a directory`);
      entry.resume();
      continue;
    }
    await writeEntry(entry, parts, directory, reading);
  }
}

const quote = (name: string): string => JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);

async function writeEntry(entry: Entry, parts: string[], directory: string, { names, links }: Reading): Promise<void> {
  const { header } = entry;
  const file = path.join(directory, ...parts);
  switch (header.type) {
    case "directory":
      names.addDirectory(parts);
      if (header.size !== 0) throw refuse(`entry ${quote(header.name)} is a folder, but contains data`);
      fs.mkdirSync(file, { recursive: true, mode: 0o755 });
      entry.resume();
      return;
    case "file":
    case "contiguous-file":
      names.add(parts, "file");
      fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o755 });
      await writeFile(entry, file, fileMode(header));
      return;
    case "link":
      names.add(parts, "link");
      links.hard.push({ file, target: header.linkname ?? "" });
      entry.resume();
      return;
    case "symlink":
      names.add(parts, "link");
      links.symbolic.push({ file, target: header.linkname ?? "" });
      entry.resume();
      return;
    default:
      // The types at run time include some that the library does not declare.
      throw refuse(`entry ${quote(header.name)} is a ${header.type ?? "file of unknown type"}`);
  }
}

/** Returns the permission bits of an entry, without setuid, setgid and sticky. The owner may always read the file. */
const fileMode = (header: tar.Header): number => (header.mode & 0o777) | 0o400;

async function writeFile(entry: Entry, file: string, mode: number): Promise<void> {
  await using handle = await fs.promises.open(file, "wx", mode);
  for await (const chunk of entry) await handle.writeFile(chunk as Uint8Array);
  await handle.chmod(mode);
}

/**
 * Creates the archive's links: first the hard links, only to files of the archive; then the symlinks. Each symlink must lead to a path
 * inside the directory. This is checked with realpath, since a chain of links that look harmless can lead outside.
 */
function makeLinks(directory: string, names: EntryNames, links: Links): void {
  for (const { file, target } of links.hard) {
    const parts = checkEntryPath(target);
    if (!names.isFile(parts))
      throw refuse(`hard link ${quote(path.relative(directory, file))} leads to ${quote(target)}, which is not a file of the archive`);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.linkSync(path.join(directory, ...parts), file);
  }
  for (const { file, target } of links.symbolic) {
    const name = path.relative(directory, file);
    if (target === "" || target.includes("\0") || path.isAbsolute(target)) throw refuse(`link ${quote(name)} leads to ${quote(target)}`);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.symlinkSync(target, file);
  }
  const root = fs.realpathSync(directory);
  for (const { file, target } of links.symbolic) {
    const real = realPath(file);
    if (real !== root && !real?.startsWith(`${root}${path.sep}`)) {
      throw refuse(`link ${quote(path.relative(directory, file))} leads to ${quote(target)}, which is not a path inside the archive`);
    }
  }
}

function realPath(file: string): string | undefined {
  try {
    return fs.realpathSync(file);
  } catch {
    return undefined;
  }
}

/** Syncs all files, then all directories. So after the final rename, a power loss loses nothing. */
async function syncTree(directory: string, signal: AbortSignal): Promise<void> {
  const entries = await fs.promises.readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const next = files.values();
  const work = async (): Promise<void> => {
    for (const file of next) {
      throwIfAborted(signal);
      await using handle = await fs.promises.open(file, "r");
      await handle.sync();
    }
  };
  await Promise.all(Array.from({ length: FSYNC_PARALLEL_MAX }, work));
  for (const entry of entries) if (entry.isDirectory()) syncDirectory(path.join(entry.parentPath, entry.name));
  syncDirectory(directory);
}

const refuseEntry = (name: string, why: string): StepFailure => refuse(`entry ${quote(name)} ${why}`);

/**
 * Splits the name of an archive entry into its path components; the result is empty for the root. Throws StepFailure for an unsafe name.
 */
function checkEntryPath(name: string): string[] {
  if (name.includes("\0")) throw refuseEntry(name, "has a NUL in its name");
  if (name.includes("\\")) throw refuseEntry(name, "has a backslash in its name");
  if (name.startsWith("/")) throw refuseEntry(name, "has an absolute path");
  if (Buffer.byteLength(name) > ENTRY_PATH_BYTES_MAX) throw refuseEntry(name, `has a path of more than ${ENTRY_PATH_BYTES_MAX} bytes`);
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  for (const part of parts) {
    if (part === "..") throw refuseEntry(name, "leads outside of the archive's root folder");
    if (Buffer.byteLength(part) > ENTRY_NAME_BYTES_MAX) throw refuseEntry(name, `has a name of more than ${ENTRY_NAME_BYTES_MAX} bytes`);
  }
  return parts;
}

type EntryKind = "file" | "directory" | "link";

/**
 * The entry names of an archive that were already used. Refuses a repeated name, even if it differs in case or Unicode form. On some file
 * systems the second entry would silently replace the first.
 */
class EntryNames {
  readonly #seen = new Map<string, { path: string; kind: EntryKind }>();

  isFile(parts: string[]): boolean {
    const seen = this.#seen.get(fold(parts.join("/")));
    return seen?.kind === "file" && seen.path === parts.join("/");
  }

  addDirectory(parts: string[]): void {
    this.#addParents(parts);
    this.#put(parts.join("/"), "directory");
  }

  add(parts: string[], kind: "file" | "link"): void {
    this.#addParents(parts);
    const path = parts.join("/");
    if (this.#seen.has(fold(path))) throw refuseEntry(path, "occurs twice (names that differ only in case count as the same)");
    this.#seen.set(fold(path), { path, kind });
  }

  #addParents(parts: string[]): void {
    for (let length = 1; length < parts.length; length += 1) this.#put(parts.slice(0, length).join("/"), "directory");
  }

  #put(path: string, kind: EntryKind): void {
    const seen = this.#seen.get(fold(path));
    if (seen === undefined) {
      this.#seen.set(fold(path), { path, kind });
      return;
    }
    if (seen.kind !== "directory") throw refuseEntry(path, `goes through ${JSON.stringify(seen.path)}, which is a ${seen.kind}`);
    if (seen.path !== path) throw refuseEntry(path, `differs from ${JSON.stringify(seen.path)} in case only`);
  }
}

const fold = (path: string): string => path.normalize("NFC").toLowerCase();
