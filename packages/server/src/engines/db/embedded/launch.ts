import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { copyFile, open, rm, stat, truncate } from "node:fs/promises";
import path from "node:path";
import { type Clock, within } from "@roamfleet/clock";
import { type Cluster, removeStaleSocket, settingsFor, SOCKET_PORT } from "./cluster.ts";
import { tryLock } from "./lock.ts";
import { findPostgresOn, identifyPostgres, isRunning, type ProcessIdentity, readPostmasterFile, sendSignal } from "./postmaster.ts";
import { Refusal } from "./refusal.ts";
import { commandFor } from "./run-as.ts";

/** Approximate maximum size of PostgreSQL's log, and of its predecessor `.1`. */
const LOG_FILE_BYTES_MAX = 4 * 1024 * 1024;
const TAIL_BYTES = 4 * 1024;

const logFileOf = (directory: string): string => `${directory}.log`;

/**
 * Opens PostgreSQL's log. It is a file and not a pipe, because PostgreSQL keeps running if the server is killed. Append mode allows
 * truncating the file while PostgreSQL writes to it.
 */
async function openLogFile(directory: string): Promise<{ fd: number; size: number; close(): Promise<void> }> {
  await boundLogFile(directory);
  const handle = await open(logFileOf(directory), constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, 0o600);
  return { fd: handle.fd, size: (await handle.stat()).size, close: () => handle.close() };
}

/** Rotates the log if it is full. Lines that PostgreSQL writes during the rotation are lost, which is acceptable for diagnostics. */
export async function boundLogFile(directory: string): Promise<void> {
  const file = logFileOf(directory);
  const info = await stat(file).catch(() => undefined);
  if (!info || info.size <= LOG_FILE_BYTES_MAX) return;
  await copyFile(file, `${file}.1`);
  await truncate(file, 0);
}

/** Returns the part of the log after `offset`, at most its last 4 KiB. */
async function readLogTail(directory: string, offset: number): Promise<string> {
  const handle = await open(logFileOf(directory), "r").catch(() => undefined);
  if (!handle) return "";
  try {
    const { size } = await handle.stat();
    const from = Math.max(offset, size - TAIL_BYTES);
    if (size <= from) return "";
    const buffer = Buffer.alloc(size - from);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, from);
    return buffer.toString("utf8", 0, bytesRead).trim();
  } finally {
    await handle.close();
  }
}

/** A running PostgreSQL that accepts connections. */
export interface Running {
  pid: number;
  /** True if PostgreSQL was already running when this server started. */
  adopted: boolean;
  socketDirectory: string;
  port: number;
  /** Resolves when the PostgreSQL process has ended. */
  exited: Promise<Ending>;
  /** Sends a signal to exactly this process. Returns false if it has ended. */
  signal(name: NodeJS.Signals): Promise<boolean>;
}

/** How the process ended. Both fields are null if PostgreSQL was adopted, because only a parent process gets the exit status. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Timeout of a start. Crash recovery replays at most max_wal_size (1 GB), so a start that takes longer is stuck. */
const READY_TIMEOUT_MS = 180_000;
const READY_POLL_MS = 20;
const ADOPTED_POLL_MS = 250;
const PROGRESS_INTERVAL_MS = 4_000;
/** How long to retry a start. After PostgreSQL is killed, its child processes use its shared memory for a few more seconds. */
const HELD_RETRY_MS = 10_000;
const HELD_RETRY_POLL_MS = 200;
const HELD = /lock file ".*" already exists|pre-existing shared memory block|is still in use/;

/**
 * Adopts the PostgreSQL that runs on the cluster's directory, or starts one, and waits until it accepts connections.
 *
 * @throws Error with the last lines of PostgreSQL's log when it does not start.
 */
export async function bringUp(cluster: Cluster, signal?: AbortSignal): Promise<Running> {
  const deadline = cluster.clock.monotonic() + HELD_RETRY_MS;
  for (;;) {
    const adopted = await adopt(cluster, signal);
    if (adopted) return adopted;
    const started = await start(cluster, signal);
    if ("running" in started) return started.running;
    if (!started.held || cluster.clock.monotonic() > deadline || signal?.aborted) {
      throw new Refusal(`PostgreSQL did not start on ${cluster.directory}: ${started.failure}`);
    }
    cluster.log.info({ directory: cluster.directory }, "processes of a killed PostgreSQL still use the database, trying again");
    await cluster.clock.sleep(HELD_RETRY_POLL_MS, signal);
  }
}

/** Adopts a PostgreSQL that runs on this directory because its server was killed. Waits until it accepts connections. */
async function adopt(cluster: Cluster, signal?: AbortSignal): Promise<Running | undefined> {
  const { clock, directory } = cluster;
  const deadline = clock.monotonic() + READY_TIMEOUT_MS;
  while (!signal?.aborted) {
    const file = await readPostmasterFile(directory);
    const identity = file && (await identifyPostgres(file.pid, directory));
    if (!file || !identity) return undefined;
    if (file.status === "ready") {
      if (file.socketDirectory === "") {
        throw new Refusal(
          `a PostgreSQL that Roamfleet did not start (process ${file.pid}) runs on ${directory} without a Unix socket: stop it first`,
        );
      }
      return adoptedRunning(cluster, identity, file.socketDirectory, file.port);
    }
    if (clock.monotonic() > deadline) {
      throw new Error(
        `PostgreSQL (process ${file.pid}) on ${directory} neither became ready nor stopped within ${READY_TIMEOUT_MS} ms: its state is ${file.status || "unknown"}`,
      );
    }
    await clock.sleep(ADOPTED_POLL_MS, signal);
  }
  return undefined;
}

function adoptedRunning(cluster: Cluster, identity: ProcessIdentity, socketDirectory: string, port: number): Running {
  const exited = new Promise<Ending>((resolve) => {
    const watch = cluster.clock.every(ADOPTED_POLL_MS, async () => {
      if (await isRunning(identity)) return;
      watch.cancel();
      resolve({ code: null, signal: null });
    });
  });
  return {
    pid: identity.pid,
    adopted: true,
    socketDirectory,
    port,
    exited,
    signal: async (name) => {
      if (!(await isRunning(identity))) return false;
      return sendSignal(identity.pid, name);
    },
  };
}

/**
 * Starts PostgreSQL. It inherits the locked file `<directory>.live` as descriptor 3, and so do its children. While any of these processes
 * runs, in any container, the lock prevents the start of a second PostgreSQL, which would destroy the database. PostgreSQL's own check only
 * works inside one container.
 */
async function start(cluster: Cluster, signal?: AbortSignal): Promise<{ running: Running } | { failure: string; held?: boolean }> {
  const { directory } = cluster;
  const live = await tryLock(`${directory}.live`);
  if (!live) return { failure: "processes of a killed PostgreSQL still use the database", held: true };
  const output = await openLogFile(directory);
  let spawned: Spawned;
  try {
    await clearStaleFiles(cluster);
    spawned = await spawnPostgres(cluster, output.fd, live.fd);
  } finally {
    await output.close();
    await live.close();
  }
  const { child, exited } = spawned;
  const { pid } = child;
  if (pid === undefined) return { failure: "the process could not be created" };
  const running: Running = {
    pid,
    adopted: false,
    socketDirectory: cluster.socketDirectory,
    port: SOCKET_PORT,
    exited,
    signal: (name) => Promise.resolve(child.kill(name)),
  };
  const verdict = await waitUntilReady(cluster, running, signal);
  if (verdict === "ready") return { running };
  if (verdict !== "exited") {
    await running.signal("SIGQUIT");
    await running.exited;
  }
  const failure = (await readLogTail(directory, output.size)) || verdict;
  return { failure, held: HELD.test(failure) };
}

interface Spawned {
  child: ChildProcess;
  exited: Promise<Ending>;
}

async function spawnPostgres(cluster: Cluster, output: number, live: number): Promise<Spawned> {
  const { binaries, directory, runAs, socketDirectory } = cluster;
  const settings = Object.entries(settingsFor(socketDirectory, cluster.parameters)).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const command = commandFor(runAs, path.join(binaries.bin, "postgres"), ["-D", directory, ...settings]);
  const child = spawn(command.file, command.args, {
    env: binaries.environment,
    cwd: "/",
    // Starts a separate session, so that Ctrl-C in the terminal reaches only the server, which then stops PostgreSQL gracefully.
    detached: true,
    stdio: ["ignore", output, output, live],
    ...command.account,
  });
  // Registered before any await, because PostgreSQL exits immediately if it refuses its settings.
  const exited = new Promise<Ending>((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  await once(child, "spawn");
  child.on("error", () => {}); // A failure to send a signal is ignored, because the sender waits for the exit anyway.
  return { child, exited };
}

/**
 * Removes the pid file and the socket if no PostgreSQL process runs on the directory. PostgreSQL would refuse to start if the id in the
 * pid file belongs to a zombie, or to another process after a reboot. If a process runs, the files stay: they prevent a second start
 * while children of a killed postmaster are still running.
 */
async function clearStaleFiles(cluster: Cluster): Promise<void> {
  if ((await findPostgresOn(cluster.directory)).length > 0) return;
  await rm(path.join(cluster.directory, "postmaster.pid"), { force: true });
  await removeStaleSocket(cluster.socketDirectory);
}

async function waitUntilReady(
  cluster: Cluster,
  running: Running,
  signal?: AbortSignal,
): Promise<"ready" | "exited" | "timeout" | "aborted"> {
  const { clock, directory, log } = cluster;
  const started = clock.monotonic();
  let reported = started;
  let gone = false;
  void running.exited.then(() => {
    gone = true;
  });
  while (!gone) {
    const file = await readPostmasterFile(directory);
    if (file?.pid === running.pid && file.status === "ready") return "ready";
    if (signal?.aborted) return "aborted";
    const now = clock.monotonic();
    if (now - started > READY_TIMEOUT_MS) return "timeout";
    if (now - reported > PROGRESS_INTERVAL_MS) {
      reported = now;
      log.info({ waited_ms: Math.round(now - started) }, "PostgreSQL is starting (it recovers after a crash)");
    }
    await clock.sleep(READY_POLL_MS, signal);
  }
  return "exited";
}

/** Timeout of a fast shutdown, which ends transactions and writes a checkpoint. */
const FAST_TIMEOUT_MS = 30_000;
/** Timeout of an immediate shutdown, which only ends processes. The next start recovers the database. */
const IMMEDIATE_TIMEOUT_MS = 10_000;
const KILLED_TIMEOUT_MS = 10_000;
const LEFTOVER_POLL_MS = 50;

/** Stops PostgreSQL by a fast shutdown, an immediate shutdown, then SIGKILL, each after a timeout. Resolves when no process is left. */
export async function shutDown(cluster: Cluster, running: Running): Promise<void> {
  const { log } = cluster;
  const steps = [
    { name: "SIGINT", timeout: FAST_TIMEOUT_MS },
    { name: "SIGQUIT", timeout: IMMEDIATE_TIMEOUT_MS },
    { name: "SIGKILL", timeout: KILLED_TIMEOUT_MS },
  ] as const;
  for (const { name, timeout } of steps) {
    if (!(await running.signal(name))) break;
    if ((await within(cluster.clock, timeout, running.exited)) !== undefined) break;
    log.warn({ pid: running.pid, signal: name, waited_ms: timeout }, "PostgreSQL did not stop in time");
  }
  await childrenEnd(cluster);
}

/** Waits for the children of a killed postmaster, which end shortly after it. Rejects if they do not. */
export async function childrenEnd({ clock, directory }: Cluster): Promise<void> {
  const deadline = clock.monotonic() + KILLED_TIMEOUT_MS;
  while ((await findPostgresOn(directory)).length > 0) {
    if (clock.monotonic() > deadline) throw new Error(`PostgreSQL processes remain on ${directory} after it was stopped`);
    await clock.sleep(LEFTOVER_POLL_MS);
  }
}

/** Kills any PostgreSQL on a directory whose contents are disposable. */
export async function killPostgresOn(directory: string, clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + KILLED_TIMEOUT_MS;
  for (;;) {
    const left = await findPostgresOn(directory);
    if (left.length === 0) return;
    for (const { pid } of left) sendSignal(pid, "SIGKILL");
    if (clock.monotonic() > deadline) throw new Error(`PostgreSQL processes on ${directory} survive SIGKILL`);
    await clock.sleep(LEFTOVER_POLL_MS);
  }
}
