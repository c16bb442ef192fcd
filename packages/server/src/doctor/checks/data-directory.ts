import { statfs } from "node:fs/promises";
import path from "node:path";
import { findObstacle, nearest } from "../../data-directory.ts";
import { refuseUnfinished } from "../../engines/db/backup/index.ts";
import { chooseRunAs, findBinaries, lockHolder, Refusal } from "../../engines/db/embedded/index.ts";
import { readSchemaRecord } from "../../engines/db/index.ts";
import { type Check, type DoctorContext, ok, problem, type Seen, shownBytes, skipped, warning } from "../finding.ts";
import { exists } from "../../kernel/files.ts";

export const dataDirectoryCheck: Check = {
  name: "data directory",
  async check({ settings, wrong_parts }) {
    if (wrong_parts.has("data")) return [skipped("not checked: first fix the problem in settings")];
    const directory = path.resolve(settings.data_directory);
    const is_embedded = settings.database_url === undefined;
    const obstacle = await findObstacle(directory, { is_embedded });
    if (obstacle !== undefined) return [problem(obstacle.seen, obstacle.hint)];
    const { place } = await nearest(directory);
    const found = [ok(place === directory ? `${directory} can be written` : `${directory} is created at the first start`)];
    if (is_embedded) found.push(...(await readStopped(directory)));
    try {
      await refuseUnfinished(directory);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      found.push(problem("a restore into this directory has not finished", error.message));
    }
    return [...found, ...(await readHolder(directory, !is_embedded)), ...evaluateDisk(await statfs(place), settings)];
  },
};

/** Returns what the last server recorded about the embedded database. */
async function readStopped(directory: string): Promise<Seen[]> {
  const record = await readSchemaRecord(directory);
  if (record === undefined) return [];
  return [ok(`the embedded database was last started by version ${record.version}, with migration ${record.migrations.at(-1) ?? "none"}`)];
}

async function readHolder(directory: string, has_database_url: boolean): Promise<Seen[]> {
  const holder = await lockHolder(path.join(directory, "postgres"));
  if (holder === undefined) return [];
  return [
    warning(
      `a server is using this directory (${holder})`,
      has_database_url
        ? "that server uses the embedded database; stop it before you start another server on this directory with DATABASE_URL"
        : "the checks apply to a second server, which needs another --data",
    ),
  ];
}

interface FileSystem {
  type: number;
  bsize: number;
  bavail: number;
  files: number;
  ffree: number;
}

/** Magic numbers of statfs(2) for file systems on which a database is unsafe, slow or temporary. */
const DOUBTFUL: ReadonlyMap<number, readonly [name: string, why: string]> = new Map([
  [0x01021994, ["tmpfs", "in memory: everything is lost when the machine stops"]],
  [0x858458f6, ["ramfs", "in memory: everything is lost when the machine stops"]],
  [0x794c7630, ["overlay", "a container's own layer: everything is lost when the container is removed"]],
  [0x6969, ["NFS", "a network file system: locks and durable writes depend on how it is mounted, and the database is slow on it"]],
  [0x517b, ["SMB", "a network file system: the database is not safe on it"]],
  [0xfe534d42, ["SMB", "a network file system: the database is not safe on it"]],
  [0xff534d42, ["CIFS", "a network file system: the database is not safe on it"]],
  [0x01021997, ["9p", "a directory of the host, mounted over 9p: the database is slow on it, and may not be safe"]],
  [0x00c36400, ["Ceph", "a network file system: the database is slow on it"]],
  [0x65735546, ["FUSE", "a user-space file system: whether writes are durable depends on it"]],
]);
const FILES_FREE_MIN = 10_000;

/** Checks the free space, and whether writes are durable. */
export function evaluateDisk(disk: FileSystem, { limits, database_url, blobs }: DoctorContext["settings"]): Seen[] {
  const findings: Seen[] = [];
  const doubt = DOUBTFUL.get(disk.type >>> 0);
  if (doubt !== undefined)
    findings.push(
      warning(
        `the data directory is on ${doubt[0]}, ${doubt[1]}`,
        database_url !== undefined && blobs !== undefined
          ? "with DATABASE_URL and ROAMFLEET_BLOBS_URL, the data directory only contains node-id, and secrets.key and tls/ unless key and certificate are configured elsewhere"
          : "choose a local disk or a volume with --data",
      ),
    );
  const free = disk.bavail * disk.bsize;
  const wanted = limits.free_disk_bytes_min;
  const room = `${shownBytes(free)} are free`;
  if (free < wanted)
    findings.push(problem(`${room}; uploads are refused below free_disk_bytes_min=${wanted}`, "free disk space, or use a larger disk"));
  else if (free < 4 * wanted)
    findings.push(
      warning(
        `${room}, and uploads must leave ${shownBytes(wanted)} free`,
        "free disk space soon: the database grows with logs and history",
      ),
    );
  else findings.push(ok(room));
  if (disk.files > 0 && disk.ffree < FILES_FREE_MIN)
    findings.push(
      warning(
        `only ${disk.ffree} more files fit on the file system of the data directory`,
        "remove files, or create the file system with more inodes",
      ),
    );
  return findings;
}

export const embeddedCheck: Check = {
  name: "PostgreSQL here",
  async check({ settings, wrong_parts }) {
    if (wrong_parts.has("database")) return [skipped("not checked: first fix the problem in settings")];
    if (settings.database_url !== undefined) return [skipped("not needed with DATABASE_URL")];
    const directory = path.join(path.resolve(settings.data_directory), "postgres");
    try {
      const { major, bin } = await findBinaries(directory);
      const parent_is_there = await exists(path.dirname(directory));
      const run_as = parent_is_there ? await chooseRunAs(directory, bin, true) : undefined;
      const account = run_as?.account === undefined ? "" : `, as user ${run_as.account.uid}`;
      return [ok(`PostgreSQL ${major} in ${bin}${account}`)];
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      // Messages of a Refusal end with what to do.
      const [seen = "", hint = "see the documentation"] = error.message.split(/: (?=[^:]*$)/);
      return [problem(seen, hint)];
    }
  },
};
