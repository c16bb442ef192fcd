import { crc32 } from "node:zlib";

const SEAL_CHARACTERS = 9;

const checksum = (text: string): string => crc32(text).toString(16).padStart(8, "0");

/**
 * A line for a spool's file, with its checksum at the end. A line that the disk changed may still be JSON: sent, it would make
 * the server close the link, and so again each time the robot comes back.
 */
export const sealLine = (text: string): string => `${text} ${checksum(text)}\n`;

/** What was sealed, from a line without its newline; undefined for a damaged one. */
export function openLine(line: string): string | undefined {
  const text = line.slice(0, -SEAL_CHARACTERS);
  return line === `${text} ${checksum(text)}` ? text : undefined;
}
