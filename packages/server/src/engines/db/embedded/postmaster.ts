import { readdir, readFile, readlink, realpath } from "node:fs/promises";
import path from "node:path";
import { errorCode } from "../../../kernel/files.ts";

/** Lines of postmaster.pid, the file that PostgreSQL writes (src/include/utils/pidfile.h). */
interface PostmasterFile {
  pid: number;
  port: number;
  socketDirectory: string;
  /** "starting", "ready", "stopping" or "standby"; empty at the beginning of a start. */
  status: string;
}

/** Identifies a process. Process ids are reused, but (id, start time) is unique. */
export interface ProcessIdentity {
  pid: number;
  /** Field 22 of /proc/<pid>/stat: clock ticks since boot. */
  startTicks: string;
}

/** Reads `<directory>/postmaster.pid`. Returns undefined if it is absent or incomplete. */
export async function readPostmasterFile(directory: string): Promise<PostmasterFile | undefined> {
  const text = await readFile(path.join(directory, "postmaster.pid"), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const [pid = "", , , port = "", socketDirectory = "", , , status = ""] = text.split("\n");
  if (!/^\d+$/.test(pid)) return undefined;
  return { pid: Number(pid), port: Number(port), socketDirectory: socketDirectory.trim(), status: status.trim() };
}

interface ProcessStat extends ProcessIdentity {
  command: string;
  state: string;
}

async function readStat(pid: number): Promise<ProcessStat | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  const match = text?.match(/^\d+ \((.*)\) (.*)$/s);
  if (!match) return undefined;
  const [, command = "", rest = ""] = match;
  const fields = rest.split(" ");
  return { pid, command, state: fields[0] ?? "", startTicks: fields[19] ?? "" };
}

/**
 * Returns the identity of a process if it is a PostgreSQL running on this directory. A process id from a file is no proof, so this checks
 * the executable and the working directory in /proc: PostgreSQL changes into its data directory. Zombie processes are excluded, because
 * many containers never reap them.
 */
export async function identifyPostgres(pid: number, directory: string): Promise<ProcessIdentity | undefined> {
  const stat = await readStat(pid);
  if (!stat || stat.command !== "postgres" || stat.state === "Z" || stat.state === "X") return undefined;
  if (!(await standsIn(pid, directory))) return undefined;
  // The process id may have been reused between the two reads.
  const again = await readStat(pid);
  if (again?.startTicks !== stat.startTicks) return undefined;
  return { pid, startTicks: stat.startTicks };
}

async function standsIn(pid: number, directory: string): Promise<boolean> {
  const real = await realpath(directory).catch(() => directory);
  try {
    const [program, cwd] = await Promise.all([readlink(`/proc/${pid}/exe`), readlink(`/proc/${pid}/cwd`)]);
    // The kernel appends " (deleted)" when the package was reinstalled while PostgreSQL was running.
    return cwd === real && path.basename(program.replace(/ \(deleted\)$/, "")) === "postgres";
  } catch (error) {
    if (errorCode(error) !== "EACCES" && errorCode(error) !== "EPERM") return false;
    // The /proc links of another user's process are not readable, but its arguments are, so this compares them instead.
    const args = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    const position = args.split("\0").indexOf("-D");
    return position >= 0 && args.split("\0")[position + 1] === real;
  }
}

/** Returns whether exactly this process is still running, and is not a zombie. */
export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  const stat = await readStat(identity.pid);
  return stat !== undefined && stat.startTicks === identity.startTicks && stat.state !== "Z" && stat.state !== "X";
}

/** Returns every PostgreSQL process on this directory: the postmaster, its children, and children of a killed one. */
export async function findPostgresOn(directory: string): Promise<ProcessIdentity[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map((pid) => identifyPostgres(Number(pid), directory)));
  return found.filter((identity) => identity !== undefined);
}

/** Sends a signal to a process that the caller has just identified. Returns false if it has ended. */
export function sendSignal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** Minimum and maximum offset of the checksum in pg_control. It follows fields whose size differs between major versions. */
const CHECKSUM_AT_MIN = 200;
const CHECKSUM_AT_MAX = 500;
const POLYNOMIAL = 0x82f63b78;

/** Returns whether a database's `global/pg_control` is intact, by its CRC-32C. PostgreSQL does not start without it. */
export async function isControlFileWhole(directory: string): Promise<boolean> {
  const bytes = await readFile(path.join(directory, "global", "pg_control")).catch(() => Buffer.alloc(0));
  if (bytes.length < CHECKSUM_AT_MAX + 4) return false;
  let crc = 0xffffffff;
  for (let at = 0; at <= CHECKSUM_AT_MAX; at += 1) {
    if (at >= CHECKSUM_AT_MIN && at % 4 === 0 && bytes.readUInt32LE(at) === (crc ^ 0xffffffff) >>> 0) return true;
    crc ^= bytes[at]!;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  }
  return false;
}
