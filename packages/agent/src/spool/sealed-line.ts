import { crc32 } from "node:zlib";

const SEAL_CHARACTERS = 9;

const checksum = (text: string): string => crc32(text).toString(16).padStart(8, "0");

/**
 * Encodes a line of a spool's file, with its checksum at the end. A line damaged on disk may still be JSON: if it were sent, the server would close
 * the link, at each connect.
 */
export const sealLine = (text: string): string => `${text} ${checksum(text)}\n`;

/** Returns the sealed text of a line without its newline; undefined for a damaged one. */
export function openLine(line: string): string | undefined {
  const text = line.slice(0, -SEAL_CHARACTERS);
  return line === `${text} ${checksum(text)}` ? text : undefined;
}
