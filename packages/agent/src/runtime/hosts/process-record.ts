import fs from "node:fs";
import { readBootId } from "../../identity/identity.ts";
import { fieldsOf, parseObject } from "../../json.ts";
import { type ProcessEntry, readProcess } from "../processes.ts";

interface ProcessId {
  pid: number;
  /** Start time in clock ticks since boot. With the boot and the pid it identifies a process, since pids are reused. */
  start_time: number;
}

/** The content of an app's `process.json`. */
export interface ProcessRecord extends ProcessId {
  boot_id: string;
  release_id: string;
  /** Number of the run, which is the name of its output directory. */
  run: number;
  /** The process that waits for the program and copies its output. */
  wrapper: ProcessId;
  stop_timeout_seconds: number;
  restarts: number;
}

/** Replaces the record. It is not made durable: after a power loss the program does not run either. */
export function writeRecord(file: string, record: ProcessRecord): void {
  fs.writeFileSync(`${file}.tmp`, JSON.stringify(record), { mode: 0o600 });
  fs.renameSync(`${file}.tmp`, file);
}

/** Returns the record; undefined if there is none or it is damaged. */
export function readRecord(file: string): ProcessRecord | undefined {
  let fields: Record<string, unknown>;
  try {
    fields = fieldsOf(parseObject(fs.readFileSync(file, "utf8")));
  } catch {
    return undefined;
  }
  const { boot_id, release_id } = fields;
  const [program, wrapper] = [processId(fields), processId(fields["wrapper"])];
  if (program === undefined || wrapper === undefined || typeof boot_id !== "string" || typeof release_id !== "string") return undefined;
  const number = (name: string): number => (typeof fields[name] === "number" ? fields[name] : 0);
  return {
    ...program,
    wrapper,
    boot_id,
    release_id,
    run: number("run"),
    stop_timeout_seconds: number("stop_timeout_seconds"),
    restarts: number("restarts"),
  };
}

function processId(value: unknown): ProcessId | undefined {
  const { pid, start_time } = fieldsOf(value);
  return Number.isSafeInteger(pid) && Number(pid) > 1 && Number.isSafeInteger(start_time)
    ? { pid: Number(pid), start_time: Number(start_time) }
    : undefined;
}

export function identify(pid: number): ProcessId {
  return { pid, start_time: readProcess(pid)?.start_time ?? -1 };
}

/** Returns the process if it still runs; undefined if it has ended, even if another process has its pid now. */
export function findProcess({ pid, start_time }: ProcessId): ProcessEntry | undefined {
  const entry = readProcess(pid);
  return entry?.start_time === start_time ? entry : undefined;
}

/** Returns the recorded program if it still runs. */
export function findRecorded(record: ProcessRecord | undefined): ProcessEntry | undefined {
  return record !== undefined && record.boot_id === readBootId("/") ? findProcess(record) : undefined;
}
