import { copyFile, open, stat, truncate } from "node:fs/promises";
import { constants } from "node:fs";

/** PostgreSQL's own log holds at most about this much, and its predecessor `.1` the same. */
const LOG_FILE_BYTES_MAX = 4 * 1024 * 1024;
const TAIL_BYTES = 4 * 1024;

export const logFileOf = (directory: string): string => `${directory}.log`;

/**
 * PostgreSQL writes to a file and not to a pipe of ours, because it outlives a killed server. Append mode: the file
 * can be cut while PostgreSQL holds it open.
 */
export async function openLogFile(directory: string): Promise<{ fd: number; size: number; close(): Promise<void> }> {
  await boundLogFile(directory);
  const handle = await open(logFileOf(directory), constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, 0o600);
  return { fd: handle.fd, size: (await handle.stat()).size, close: () => handle.close() };
}

/** Moves a full log aside. Lines written in between are lost; they are for people, not records. */
export async function boundLogFile(directory: string): Promise<void> {
  const file = logFileOf(directory);
  const info = await stat(file).catch(() => undefined);
  if (!info || info.size <= LOG_FILE_BYTES_MAX) return;
  await copyFile(file, `${file}.1`);
  await truncate(file, 0);
}

/** What was written after `offset`, its last 4 KiB. */
export async function readLogTail(directory: string, offset: number): Promise<string> {
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
