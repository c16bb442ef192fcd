import { lstat, mkdir, mkdtemp, readdir, readlink, realpath, rename, rm, symlink } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { errorCode, syncDirectory } from "../../../kernel/files.ts";
import { type Binaries, type BinarySources, chooseBinaries, readMajor } from "./binaries.ts";
import type { EngineLog } from "../../log.ts";
import { Refusal } from "./refusal.ts";
import { chooseRunAs, commandFor, giveTo, type RunAs } from "./run-as.ts";
import { run } from "./run.ts";

/** PostgreSQL settings by name, as on its command line. */
type Parameters = Readonly<Record<string, string>>;

/**
 * PostgreSQL settings that prevent it from running a command or loading a library. They are on the command line, which overrides the files
 * in the database's directory. So a tampered backup, once restored, cannot run code through its settings files.
 */
const NO_COMMANDS: Parameters = {
  archive_mode: "off",
  archive_command: "",
  archive_library: "",
  archive_cleanup_command: "",
  restore_command: "",
  recovery_end_command: "",
  ssl: "off",
  ssl_passphrase_command: "",
  shared_preload_libraries: "",
  session_preload_libraries: "",
  local_preload_libraries: "",
  dynamic_library_path: "$libdir",
};

/**
 * Returns our settings that differ from PostgreSQL's defaults. They are on the command line, so that a database of an older Roamfleet,
 * restored or upgraded, uses the settings of the running program.
 */
export function settingsFor(socketDirectory: string, parameters: Parameters): Record<string, string> {
  return {
    // Disables TCP. The only access is a socket inside a 0700 directory, without a password.
    listen_addresses: "",
    // The setting is a list, so the path is quoted: it may contain a comma.
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    unix_socket_permissions: "0700",
    port: String(SOCKET_PORT),
    // Chosen for a small machine that also runs the server: a quarter of 512 MiB, and connections for a few pools.
    shared_buffers: "128MB",
    max_connections: "100",
    // Ensures that an acknowledged write survives a power failure.
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    // JIT compilation is off, because it costs more than it saves for short statements.
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    log_destination: "stderr",
    logging_collector: "off",
    // Errors of statements are not logged, because they quote rows and parameters. Clients receive these errors anyway.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_parameter_max_length: "0",
    log_parameter_max_length_on_error: "0",
    log_checkpoints: "off",
    ...NO_COMMANDS,
    ...parameters,
  };
}

export const SOCKET_PORT = 5432;
/** Maximum length of a Unix socket's path on Linux, without the final zero byte (sockaddr_un). */
const SOCKET_PATH_BYTES_MAX = 107;
const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;

const fits = (directory: string): boolean => Buffer.byteLength(path.join(directory, SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX;

/**
 * Returns the directory of PostgreSQL's socket, created with mode 0700 if absent. Every user that can enter it is the database's superuser.
 * Its path is `<directory>.run`. If the socket's path would be too long, `<directory>.run` is a link to a private directory in the system's
 * temporary directory, which is reused until a graceful stop.
 */
async function socketDirectoryFor(directory: string, runAs: RunAs): Promise<string> {
  const place = `${directory}.run`;
  if (fits(place)) {
    if (await isPrivate(place, runAs)) return place;
    await rm(place, { recursive: true, force: true });
    await mkdir(place, { mode: 0o700 });
    await giveTo(runAs, place);
    return place;
  }
  const recorded = await readlink(place).catch(() => undefined);
  if (recorded !== undefined && fits(recorded) && (await isPrivate(recorded, runAs))) return recorded;
  const base = fits(path.join(os.tmpdir(), "roamfleet-XXXXXX")) ? os.tmpdir() : "/tmp";
  const made = await mkdtemp(path.join(base, "roamfleet-"));
  await giveTo(runAs, made);
  await rm(place, { recursive: true, force: true });
  await symlink(made, place);
  return made;
}

/** Returns whether PostgreSQL's account owns the directory and no other user can enter it. Any user can create a directory in /tmp. */
async function isPrivate(directory: string, runAs: RunAs): Promise<boolean> {
  const info = await lstat(directory).catch(() => undefined);
  const owner = runAs.account?.uid ?? process.getuid?.();
  return info !== undefined && info.isDirectory() && info.uid === owner && (info.mode & 0o077) === 0;
}

/** Removes the directory of socketDirectoryFor after PostgreSQL has stopped. */
export async function removeSocketDirectory(directory: string): Promise<void> {
  const place = `${directory}.run`;
  const recorded = await readlink(place).catch((error: unknown) => {
    if (errorCode(error) === "EINVAL" || errorCode(error) === "ENOENT") return undefined;
    throw error;
  });
  // Checks the name before removal, because a user may have changed the link.
  if (recorded !== undefined && path.basename(recorded).startsWith("roamfleet-")) await rm(recorded, { recursive: true, force: true });
  await rm(place, { recursive: true, force: true });
}

/** Removes the socket and lock file of a killed PostgreSQL. A new PostgreSQL would consider the process id in them as running. */
export async function removeStaleSocket(socketDirectory: string): Promise<void> {
  await rm(path.join(socketDirectory, SOCKET_NAME), { force: true });
  await rm(path.join(socketDirectory, `${SOCKET_NAME}.lock`), { force: true });
}

/** Address of the database, in the form that pg's Client and Pool accept. */
export interface Connection {
  /** Directory of the Unix socket. */
  host: string;
  port: number;
  user: string;
  database: string;
}

/** The superuser that initdb creates. The socket is the only access. */
export const SUPERUSER = "roamfleet";

/** A database directory with everything needed to start PostgreSQL on it. The caller has locked it. */
export interface Cluster {
  /** Absolute path of the directory, with the links of its parent resolved. */
  directory: string;
  socketDirectory: string;
  binaries: Binaries;
  runAs: RunAs;
  parameters: Parameters;
  log: EngineLog;
  clock: Clock;
}

export interface ClusterOptions {
  log: EngineLog;
  clock: Clock;
  /** Settings that override those of `settingsFor`, such as `{ fsync: "off" }`. For tests. */
  parameters?: Parameters;
  /** False: do not use user namespaces, even if the kernel has them. */
  userNamespaces?: boolean;
  /** Where to find PostgreSQL's binaries. Default: the machine's usual places. */
  sources?: BinarySources;
}

/**
 * Creates the parent directory if necessary and returns the absolute path, without links: /proc reports the working directory of a process
 * in this form.
 *
 * The mode of the parent is 0711: if PostgreSQL runs under another account, that account must be able to traverse it. Everything inside is
 * closed to other users.
 */
export async function placeDirectory(directory: string): Promise<string> {
  const absolute = path.resolve(directory);
  const parent = path.dirname(absolute);
  await mkdir(parent, { recursive: true, mode: 0o711 }).catch((error: unknown) => {
    throw new Refusal(`cannot create the data directory ${parent} (${errorCode(error) ?? String(error)})`);
  });
  return path.join(await realpath(parent), path.basename(absolute));
}

/**
 * Prepares a locked directory: binaries, account, socket directory, and initdb if it is new.
 *
 * @throws Refusal when it cannot be started here.
 */
export async function openCluster(directory: string, options: ClusterOptions): Promise<Cluster> {
  const { log, clock, parameters = {} } = options;
  const binaries = await chooseBinaries(directory, options.sources);
  const runAs = await chooseRunAs(directory, binaries.bin, options.userNamespaces ?? true);
  await sweepHalfMade(directory, log);
  if ((await readMajor(directory)) === undefined) {
    const started = clock.monotonic();
    log.info({ directory, postgresql: binaries.major }, "creating a new database");
    await makeCluster(directory, binaries, runAs, parameters);
    log.info({ directory, duration_ms: Math.round(clock.monotonic() - started) }, "created a new database");
  } else {
    await giveTo(runAs, directory);
  }
  return { directory, socketDirectory: await socketDirectoryFor(directory, runAs), binaries, runAs, parameters, log, clock };
}

const halfMadePrefix = (directory: string): string => `${path.basename(directory)}.init-`;

/** Creates a database with initdb in a temporary directory, then renames it, so that a kill leaves no partial database. */
async function makeCluster(directory: string, binaries: Binaries, runAs: RunAs, parameters: Parameters): Promise<void> {
  const parent = path.dirname(directory);
  const half = await mkdtemp(path.join(parent, halfMadePrefix(directory)));
  await giveTo(runAs, half);
  const args = [
    "-D",
    half,
    "--username",
    SUPERUSER,
    "--auth",
    "trust",
    "--locale=C",
    "--encoding=UTF8",
    "--data-checksums",
    "--no-instructions",
  ];
  if (parameters["fsync"] === "off") args.push("--no-sync");
  const command = commandFor(runAs, path.join(binaries.bin, "initdb"), args);
  const { code, output } = await run(command.file, command.args, { env: binaries.environment, cwd: "/", ...command.account });
  if (code !== 0) {
    await rm(half, { recursive: true, force: true });
    throw new Refusal(`initdb failed in ${half}: ${output.trim() || `exit code ${code}`}`);
  }
  await rename(half, directory);
  await syncDirectory(parent);
}

/**
 * Removes the directories of killed initdb runs. An initdb may still be writing, because it outlives a killed server. It cannot conflict
 * with a new one, because directory names are random. If its directory cannot be removed now, the next start removes it.
 */
async function sweepHalfMade(directory: string, log: EngineLog): Promise<void> {
  const parent = path.dirname(directory);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(halfMadePrefix(directory))) continue;
    log.warn({ directory: path.join(parent, name) }, "removing an incomplete database");
    await rm(path.join(parent, name), { recursive: true, force: true }).catch((error: unknown) => {
      log.warn({ err: error }, "could not remove an incomplete database");
    });
  }
}
