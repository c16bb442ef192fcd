import { copyFile, open, stat, truncate } from "node:fs/promises";
import { constants } from "node:fs";

/** Approximate maximum size of PostgreSQL's log, and of its predecessor `.1`. */
const LOG_FILE_BYTES_MAX = 4 * 1024 * 1024;
const TAIL_BYTES = 4 * 1024;

export const logFileOf = (directory: string): string => `${directory}.log`;

/**
 * Opens PostgreSQL's log. It is a file and not a pipe, because PostgreSQL outlives a killed server. Append mode allows truncating the file
 * while PostgreSQL has it open.
 */
export async function openLogFile(directory: string): Promise<{ fd: number; size: number; close(): Promise<void> }> {
  await boundLogFile(directory);
  const handle = await open(logFileOf(directory), constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, 0o600);
  return { fd: handle.fd, size: (await handle.stat()).size, close: () => handle.close() };
}

/** Rotates a full log. Lines written meanwhile are lost; they are only diagnostics. */
export async function boundLogFile(directory: string): Promise<void> {
  const file = logFileOf(directory);
  const info = await stat(file).catch(() => undefined);
  if (!info || info.size <= LOG_FILE_BYTES_MAX) return;
  await copyFile(file, `${file}.1`);
  await truncate(file, 0);
}

/** Returns the last 4 KiB of the log written after `offset`. */
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
