import { mkdir, mkdtemp, readdir, realpath, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { type Binaries, type BinarySources, chooseBinaries, readMajor } from "./binaries.ts";
import type { Log } from "./log.ts";
import { errorCode, Refusal } from "./refusal.ts";
import { chooseRunAs, commandFor, giveTo, type RunAs } from "./run-as.ts";
import { run } from "./run.ts";
import type { Parameters } from "./settings.ts";
import { socketDirectoryFor } from "./socket-directory.ts";
import { syncDirectory } from "../../../kernel/sync-directory.ts";

/** The superuser that initdb creates. The socket is the only access. */
export const SUPERUSER = "roamfleet";

/** A database directory with everything needed to start PostgreSQL on it. The caller has locked it. */
export interface Cluster {
  /** Absolute, with the links of its parent resolved. */
  directory: string;
  socketDirectory: string;
  binaries: Binaries;
  runAs: RunAs;
  parameters: Parameters;
  log: Log;
  clock: Clock;
}

export interface ClusterOptions {
  log: Log;
  clock: Clock;
  /** Overrides of settings.ts, for tests: `{ fsync: "off" }`. */
  parameters?: Parameters;
  /** False: do not use user namespaces, as if the kernel had none. */
  userNamespaces?: boolean;
  /** Where to find PostgreSQL's binaries. Default: the machine's usual places. */
  sources?: BinarySources;
}

/**
 * Creates the parent directory if necessary and returns the absolute path, without links: /proc reports the working directory of a process
 * in this form.
 *
 * Mode 0711: if PostgreSQL runs under another account, it must be able to pass. Everything inside is closed to other users.
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

/** Runs initdb in a temporary directory, then renames it, so that a kill leaves no partial database. */
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
 * Removes the remains of killed initdb runs. One may still be writing, because it outlives a killed server. Its random directory name
 * avoids conflicts, and what cannot be removed now is removed at the next start.
 */
async function sweepHalfMade(directory: string, log: Log): Promise<void> {
  const parent = path.dirname(directory);
  for (const name of await readdir(parent)) {
    if (!name.startsWith(halfMadePrefix(directory))) continue;
    log.warn({ directory: path.join(parent, name) }, "removing an incomplete database");
    await rm(path.join(parent, name), { recursive: true, force: true }).catch((error: unknown) => {
      log.warn({ err: error }, "could not remove an incomplete database");
    });
  }
}
