import { ImageRefused } from "./image-refused.ts";

export type TarType = "file" | "directory" | "symlink" | "hard_link" | "pax" | "global" | "long_name" | "long_link" | "other";

export interface TarHeader {
  type: TarType;
  name: string;
  /** Target of a link; "" for other entries. */
  link: string;
  /** Bytes of content, without padding. */
  size: number;
}

const TYPES: Readonly<Record<string, TarType>> = {
  "\0": "file",
  "0": "file",
  "7": "file",
  "1": "hard_link",
  "2": "symlink",
  "5": "directory",
  x: "pax",
  g: "global",
  L: "long_name",
  K: "long_link",
};
const CHECKSUM_AT = 148;
const CHECKSUM_BYTES = 8;
const SPACE = 0x20;
const BASE_256 = 0x80;

/** Returns the text up to the first NUL. */
export function textAt(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at);
  return block.toString("utf8", at, end === -1 ? at + length : Math.min(end, at + length));
}

/** Parses the header in a 512-byte block; undefined if the checksum is wrong. */
export function readHeader(block: Buffer): TarHeader | undefined {
  const checksum = octal(textAt(block, CHECKSUM_AT, CHECKSUM_BYTES));
  let sum = 0;
  for (const [at, byte] of block.entries()) sum += at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_BYTES ? SPACE : byte;
  if (checksum === undefined || checksum !== sum) return undefined;
  const type = TYPES[String.fromCharCode(block[156] ?? 0)] ?? "other";
  const prefix = textAt(block, 257, 6) === "ustar" && block[263] === 0x30 ? textAt(block, 345, 155) : "";
  const name = textAt(block, 0, 100);
  const size = sizeAt(block);
  // Only files and extended headers have content, whatever size other headers state.
  const has_bytes =
    type === "file" || type === "pax" || type === "global" || type === "long_name" || type === "long_link" || type === "other";
  return {
    type: type === "file" && name.endsWith("/") ? "directory" : type,
    name: prefix === "" ? name : `${prefix}/${name}`,
    link: textAt(block, 157, 100),
    size: has_bytes ? size : 0,
  };
}

/** Octal digits, or from 8 GiB on a binary number in eleven bytes after a marker byte. */
function sizeAt(block: Buffer): number {
  const first = block[124] ?? 0;
  if ((first & BASE_256) === 0) {
    const size = octal(textAt(block, 124, 12));
    if (size === undefined) throw new ImageRefused("an entry's size is not a number");
    return size;
  }
  if (first !== BASE_256) throw new ImageRefused("an entry's size is negative");
  const size = block.subarray(125, 136).reduce((sum, byte) => sum * 256 + byte, 0);
  if (!Number.isSafeInteger(size)) throw new ImageRefused("an entry's size is not a number");
  return size;
}

function octal(text: string): number | undefined {
  const digits = text.trim();
  return digits === "" ? 0 : /^[0-7]{1,15}$/.test(digits) ? Number.parseInt(digits, 8) : undefined;
}

/**
 * Parses the fields of an extended header that override the entry's: repeated `length key=value\
 * `.
 */
export function readPax(content: Buffer): { name?: string; link?: string; size?: number } {
  const said: { name?: string; link?: string; size?: number } = {};
  for (let at = 0; at < content.length;) {
    const space = content.indexOf(SPACE, at);
    const digits = space === -1 ? "" : content.toString("latin1", at, space);
    const length = /^[1-9]\d{0,6}$/.test(digits) ? Number(digits) : 0;
    if (length < digits.length + 3 || at + length > content.length) throw new ImageRefused("an extended header is malformed");
    const field = content.toString("utf8", space + 1, at + length - 1);
    const equals = field.indexOf("=");
    if (equals === -1) throw new ImageRefused("an extended header is malformed");
    const [key, value] = [field.slice(0, equals), field.slice(equals + 1)];
    if (key === "path") said.name = value;
    if (key === "linkpath") said.link = value;
    if (key === "size") {
      if (!/^\d{1,15}$/.test(value)) throw new ImageRefused("an entry's size is not a number");
      said.size = Number(value);
    }
    if (key.startsWith("GNU.sparse.")) throw new ImageRefused("it has a sparse file (with holes)");
    at += length;
  }
  return said;
}
