import { readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { exists, syncDirectory } from "../../../kernel/files.ts";
import { withClient } from "../with-client.ts";
import { chooseBinaries } from "./binaries.ts";
import {
  type Cluster,
  type ClusterOptions,
  type Connection,
  openCluster,
  placeDirectory,
  removeSocketDirectory,
  SUPERUSER,
} from "./cluster.ts";
import { boundLogFile, bringUp, childrenEnd, type Ending, type Running, shutDown } from "./launch.ts";
import { type Lock, lockDirectory } from "./lock.ts";
import type { EngineLog } from "../../log.ts";
import { identifyPostgres, readPostmasterFile } from "./postmaster.ts";

/** Plan for replacing the database by another one. Both directories are in the same parent directory as the current one. */
interface Switch {
  /** The new database. */
  upgraded: string;
  /** New name of the current database. */
  kept: string;
}

const switchFileOf = (directory: string): string => `${directory}.switch`;

/**
 * Replaces the database at `directory` by the one at `upgraded` and renames the current one to `kept`. Two renames are not atomic, so the
 * plan is written to disk first. After a kill between them, the next start finishes the switch instead of creating an empty database.
 */
export async function switchDirectories(directory: string, next: Switch, log: EngineLog): Promise<void> {
  const file = switchFileOf(directory);
  await writeFile(`${file}.new`, JSON.stringify(next), { flush: true, mode: 0o600 });
  await rename(`${file}.new`, file);
  await syncDirectory(path.dirname(directory));
  await finishSwitch(directory, log);
}

/** Finishes a switch that is recorded on disk. No effect if there is none. */
export async function finishSwitch(directory: string, log: EngineLog): Promise<void> {
  const file = switchFileOf(directory);
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return;
  const parent = path.dirname(directory);
  const { upgraded, kept } = JSON.parse(text) as Switch;
  const from = path.join(parent, upgraded);
  if (await exists(from)) {
    if (!(await exists(path.join(parent, kept)))) await rename(directory, path.join(parent, kept));
    await rename(from, directory);
  }
  await syncDirectory(parent);
  await rm(file);
  log.info({ directory, kept }, "the upgraded database is in place, the old one is kept");
}

const DATABASE = "roamfleet";

export interface EmbeddedOptions extends ClusterOptions {
  /** The database's directory, created if absent: `<data>/postgres`. Names of files beside it start with its name. */
  directory: string;
}

/** A PostgreSQL child process that is kept running until `stop`. */
export interface Embedded {
  /** Stays the same when PostgreSQL is restarted, so that pools can simply reconnect. */
  readonly connection: Connection;
  readonly major: number;
  /** Process id of the running PostgreSQL. It changes when PostgreSQL is restarted. */
  readonly pid: number;
  /** True if this server adopted a PostgreSQL that was already running because an earlier server was killed. */
  readonly adopted: boolean;
  /** Stops PostgreSQL and all its processes. Concurrent calls wait for the same stop. */
  stop(): Promise<void>;
}

const RESTART_DELAY_MS_MIN = 100;
/** Maximum delay before a restart. It is short: all requests wait for the database, and the cause may already be gone. */
const RESTART_DELAY_MS_MAX = 2_000;
/** If PostgreSQL ran for this long before it ended, the next restart is immediate again. */
const HEALTHY_AFTER_MS = 60_000;
const LOG_CHECK_INTERVAL_MS = 600_000;

/**
 * Starts (or adopts) PostgreSQL on a directory and keeps it running.
 *
 * @throws Refusal with a sentence for people when the directory is in use, another user's, or no binary fits.
 */
export async function startEmbedded({ directory: given, ...options }: EmbeddedOptions): Promise<Embedded> {
  // Runs before anything is written, so that the directory stays unchanged if there is no suitable binary.
  await chooseBinaries(path.resolve(given), options.sources);
  const directory = await placeDirectory(given);
  const lock = await lockDirectory(directory);
  let cluster: Cluster | undefined;
  let running: Running | undefined;
  try {
    await finishSwitch(directory, options.log);
    cluster = await openCluster(directory, options);
    running = await bringUp(cluster);
    const connection = connectionTo(running);
    await ensureDatabase(connection);
    const { pid, adopted } = running;
    options.log.info(
      { pid, postgresql: cluster.binaries.major, adopted },
      adopted ? "using a PostgreSQL that was already running" : "PostgreSQL started",
    );
    return new Supervisor(cluster, lock, running, connection);
  } catch (error) {
    if (cluster && running) await shutDown(cluster, running);
    await lock.release();
    throw error;
  }
}

export function connectionTo(running: Pick<Running, "socketDirectory" | "port">): Connection {
  return { host: running.socketDirectory, port: running.port, user: SUPERUSER, database: DATABASE };
}

export async function ensureDatabase(connection: Connection): Promise<void> {
  await withClient({ ...connection, database: "postgres" }, async (client) => {
    const { rowCount } = await client.query("select 1 from pg_database where datname = $1", [connection.database]);
    if (rowCount === 0) await client.query(`create database ${client.escapeIdentifier(connection.database)}`);
  });
}

class Supervisor implements Embedded {
  readonly connection: Connection;
  readonly major: number;
  readonly adopted: boolean;
  readonly #cluster: Cluster;
  readonly #lock: Lock;
  readonly #stopping = new AbortController();
  readonly #watching: Promise<void>;
  #running: Running | undefined;
  #pid: number;
  #stopped: Promise<void> | undefined;

  constructor(cluster: Cluster, lock: Lock, running: Running, connection: Connection) {
    this.connection = connection;
    this.major = cluster.binaries.major;
    this.adopted = running.adopted;
    this.#cluster = { ...cluster, socketDirectory: running.socketDirectory };
    this.#lock = lock;
    this.#running = running;
    this.#pid = running.pid;
    this.#watching = this.#watch(running);
  }

  get pid(): number {
    return this.#pid;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** Restarts PostgreSQL each time it ends, until `stop`. */
  async #watch(first: Running): Promise<void> {
    const { clock, log, directory } = this.#cluster;
    const bound = clock.every(LOG_CHECK_INTERVAL_MS, () =>
      boundLogFile(directory).catch((error: unknown) => log.warn({ err: error }, "could not rotate PostgreSQL's log")),
    );
    let running: Running | undefined = first;
    let delay = 0;
    while (running) {
      const started = clock.monotonic();
      const ending = await this.#endOf(running);
      if (!ending) break;
      this.#running = undefined;
      log.error({ pid: running.pid, ...ending }, "PostgreSQL ended unexpectedly, restarting it");
      if (clock.monotonic() - started > HEALTHY_AFTER_MS) delay = 0;
      running = await this.#restart(delay);
      delay = nextDelay(delay);
    }
    bound.cancel();
  }

  /** Returns how PostgreSQL ended; undefined if `stop` was called first. */
  async #endOf(running: Running): Promise<Ending | undefined> {
    const { signal } = this.#stopping;
    const stopped = new Promise<undefined>((resolve) => {
      if (signal.aborted) resolve(undefined);
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    return Promise.race([running.exited, stopped]);
  }

  async #restart(first_delay: number): Promise<Running | undefined> {
    const { clock, log } = this.#cluster;
    const { signal } = this.#stopping;
    for (let delay = first_delay; !signal.aborted; delay = nextDelay(delay)) {
      await clock.sleep(delay, signal);
      if (signal.aborted) return undefined;
      try {
        const running = await bringUp(this.#cluster, signal);
        this.#running = running;
        this.#pid = running.pid;
        log.info({ pid: running.pid }, "PostgreSQL restarted");
        return running;
      } catch (error) {
        if (!signal.aborted) log.error({ err: error, retry_ms: nextDelay(delay) }, "could not restart PostgreSQL");
      }
    }
    return undefined;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    await this.#watching;
    if (this.#running) await shutDown(this.#cluster, this.#running);
    else await childrenEnd(this.#cluster);
    await removeSocketDirectory(this.#cluster.directory);
    await this.#lock.release();
    this.#cluster.log.info({ pid: this.#pid }, "PostgreSQL stopped");
  }
}

const nextDelay = (delay: number): number => Math.min(Math.max(delay * 2, RESTART_DELAY_MS_MIN), RESTART_DELAY_MS_MAX);

/** Returns the connection of the database that is running on this directory; undefined if there is none. */
export async function runningDatabase(given: string): Promise<Connection | undefined> {
  const directory = await realpath(given).catch(() => given);
  const file = await readPostmasterFile(directory);
  if (file?.status !== "ready" || (await identifyPostgres(file.pid, directory)) === undefined) return undefined;
  return { host: file.socketDirectory, port: file.port, user: SUPERUSER, database: DATABASE };
}
