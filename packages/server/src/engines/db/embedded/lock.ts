import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "./refusal.ts";
import { run } from "./run.ts";
import { errorCode, exists } from "../../../kernel/files.ts";

export interface Lock {
  release(): Promise<void>;
}

/** Exit code that flock(1) must return if the lock is taken. Its own errors use 64 and above. */
const HELD_ELSEWHERE = 9;

/**
 * Locks a file, which is created if absent. Returns undefined if another process has the lock.
 *
 * It is a kernel lock (flock on the open file), taken by flock(1) on an inherited descriptor. It lasts while any process has that
 * descriptor open: SIGKILL releases it, a reused process id cannot fake it, and it works between containers that share the directory.
 */
export async function tryLock(file: string): Promise<FileHandle | undefined> {
  const handle = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600).catch((error: unknown) => {
    throw new Refusal(
      `cannot write ${file} (${errorCode(error) ?? String(error)}): the data directory must belong to the user who starts the server`,
    );
  });
  const args = ["--exclusive", "--nonblock", "--conflict-exit-code", String(HELD_ELSEWHERE), "3"];
  const { code, output } = await run("flock", args, { stdio: ["ignore", "pipe", "pipe", handle.fd] });
  if (code === 0) return handle;
  await handle.close();
  if (code === HELD_ELSEWHERE) return undefined;
  if (code === undefined) throw new Refusal("the program flock is missing: install util-linux, or set DATABASE_URL");
  throw new Refusal(`cannot lock ${file}: ${output.trim()}`);
}

/**
 * Locks `<directory>.lock` for the lifetime of this process, so that only one server uses a database.
 *
 * @throws Refusal when another process has the lock, or when locking is impossible here.
 */
export async function lockDirectory(directory: string): Promise<Lock> {
  const file = `${directory}.lock`;
  const handle = await tryLock(file);
  if (!handle) throw new Refusal(await describeHolder(directory));
  // Writes the content of the file, which other processes only use for an error message.
  await handle.truncate(0);
  await handle.write(`${process.pid}\n`, 0);
  return { release: () => handle.close() };
}

/** Describes the process that has the lock of a database's directory; undefined if the directory is not locked. */
export async function lockHolder(directory: string): Promise<string | undefined> {
  const file = `${directory}.lock`;
  const there = await exists(file);
  // Takes the lock briefly to find out whether it is taken. Only this test works across containers.
  const handle = there ? await tryLock(file) : undefined;
  await handle?.close();
  return there && handle === undefined ? await readHolder(file) : undefined;
}

async function describeHolder(directory: string): Promise<string> {
  const holder = await readHolder(`${directory}.lock`);
  return `the database in ${directory} is already in use by ${holder}: stop that server first, or give this one another --data directory`;
}

async function readHolder(file: string): Promise<string> {
  const handle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(32), 0, 32, 0);
    const pid = Number.parseInt(buffer.toString("utf8", 0, bytesRead), 10);
    return Number.isInteger(pid) ? `process ${pid}` : "another process";
  } finally {
    await handle.close();
  }
}
