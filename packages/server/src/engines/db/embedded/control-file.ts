import { readFile } from "node:fs/promises";
import path from "node:path";

/** The checksum follows the fields, whose size differs between major versions of PostgreSQL. */
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
