import { createHash } from "node:crypto";

/**
 * Thrown if an uploaded archive claims to contain an image but has none that a robot can run. The message completes the sentence "its
 * archive is refused:".
 */
export class ImageRefused extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ImageRefused";
  }
}

/** Maximum entries of an archive. An image has a few hundred files at most: three per layer in the older format. */
const ENTRIES_MAX = 10_000;
const BLOCK_BYTES = 512;
/** Maximum bytes of an extended header. Such headers contain only names and numbers. */
const EXTENSION_BYTES_MAX = 64 * 1024;
const NAME_CHARACTERS_MAX = 1_024;
const HEAD_BYTES = 4;

export interface TarFile {
  /** Offset of the file's content in the archive. */
  start: number;
  /** Size of the content in bytes. */
  size: number;
  /** SHA-256 of the content, lower-case hex. */
  sha256: string;
  /** The first bytes of the content, to detect compression. */
  head: Buffer;
}

export interface TarContents {
  files: Map<string, TarFile>;
  /** Symbolic and hard links within the archive: name to target name. */
  links: Map<string, string>;
}

/**
 * Scans a tar archive in one pass and records only the positions and digests of its files. Returns undefined if it is not a tar archive.
 * Throws ImageRefused if it is malformed, has names that lead outside of the archive, or has more entries than an image can have.
 */
export async function scanTar(stream: AsyncIterable<Buffer>, archive_bytes: number): Promise<TarContents | undefined> {
  const reader = new Reader(stream);
  const contents: TarContents = { files: new Map(), links: new Map() };
  for (let entries = 0; ;) {
    const next = await readEntry(reader, archive_bytes);
    if (entries === 0 && (next === "no_tar" || next === "end")) return undefined;
    if (next === "no_tar") throw new ImageRefused(`at byte ${reader.position - BLOCK_BYTES} there is no valid entry header`);
    if (next === "end") {
      await reader.pass(Infinity);
      return contents;
    }
    entries += 1;
    if (entries > ENTRIES_MAX) throw new ImageRefused(`it has more than ${ENTRIES_MAX} entries`);
    await keepEntry(reader, next, contents);
  }
}

type Entry = Pick<TarHeader, "type" | "name" | "link" | "size">;

/** Returns the next entry, with the fields of preceding extended headers. The reader is then at the entry's content. */
async function readEntry(reader: Reader, archive_bytes: number): Promise<Entry | "end" | "no_tar"> {
  const said: Partial<Entry> = {};
  for (;;) {
    const block = await reader.take(BLOCK_BYTES);
    if (block === undefined || block.every((byte) => byte === 0)) {
      if (Object.keys(said).length > 0) throw new ImageRefused("it is truncated");
      return "end";
    }
    const header = readHeader(block);
    if (header === undefined) return "no_tar";
    const { type } = header;
    if (type !== "pax" && type !== "long_name" && type !== "long_link" && type !== "global") {
      const entry = { ...header, ...said, size: type === "file" ? (said.size ?? header.size) : header.size };
      if (entry.size > archive_bytes - reader.position) throw new ImageRefused(`entry ${shown(entry.name)} is larger than the archive`);
      return { ...entry, name: plainName(entry.name) };
    }
    if (header.size > EXTENSION_BYTES_MAX) throw new ImageRefused(`an extended header has ${header.size} bytes`);
    const content = await reader.take(padded(header.size));
    if (content === undefined) throw new ImageRefused("it is truncated");
    const text = content.subarray(0, header.size);
    if (type === "pax") Object.assign(said, readPax(text));
    if (type === "long_name") said.name = textAt(text, 0, text.length);
    if (type === "long_link") said.link = textAt(text, 0, text.length);
  }
}

async function keepEntry(reader: Reader, { type, name, link, size }: Entry, { files, links }: TarContents): Promise<void> {
  if (type === "directory") return await reader.pass(padded(size));
  if (type === "other") throw new ImageRefused(`entry ${shown(name)} is neither a file nor a directory`);
  if (name === "") throw new ImageRefused("an entry has no name");
  if (type === "file") {
    const start = reader.position;
    const hash = createHash("sha256");
    const head = Buffer.alloc(HEAD_BYTES);
    let seen = 0;
    await reader.pass(size, (chunk) => {
      if (seen < HEAD_BYTES) chunk.copy(head, seen);
      seen += chunk.length;
      hash.update(chunk);
    });
    await reader.pass(padded(size) - size);
    const file: TarFile = { start, size, sha256: hash.digest("hex"), head };
    const before = files.get(name);
    if (links.has(name) || (before !== undefined && before.sha256 !== file.sha256))
      throw new ImageRefused(`entry ${shown(name)} occurs twice with different contents`);
    files.set(name, file);
    return;
  }
  if (files.has(name) || links.has(name)) throw new ImageRefused(`entry ${shown(name)} occurs twice`);
  // The target of a hard link is the full name of an entry. The target of a symbolic link is relative to the link's directory.
  const from = type === "hard_link" || link.startsWith("/") ? "" : `${name.split("/").slice(0, -1).join("/")}/`;
  links.set(name, plainName(from === "/" ? link : `${from}${link}`));
  await reader.pass(padded(size));
}

/** Normalizes a name: removes `.`, and `..` if it stays inside. Throws for a name that leads outside the archive. */
function plainName(name: string): string {
  if (name.length > NAME_CHARACTERS_MAX || name.includes("\0")) throw new ImageRefused(`entry ${shown(name)} has an invalid name`);
  if (name.startsWith("/")) throw new ImageRefused(`entry ${shown(name)} leads outside the archive`);
  const parts: string[] = [];
  for (const part of name.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) throw new ImageRefused(`entry ${shown(name)} leads outside the archive`);
  }
  return parts.join("/");
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 100));
const padded = (bytes: number): number => Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;

/** Reads a stream in parts of requested lengths. Buffers at most one chunk. */
class Reader {
  position = 0;
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** Returns this many bytes; undefined if the stream ends earlier. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const parts: Buffer[] = [];
    const missing = await this.#read(bytes, (chunk) => void parts.push(chunk));
    return missing > 0 ? undefined : Buffer.concat(parts);
  }

  /** Passes this many bytes to `see`, or all remaining bytes for Infinity. Throws if the stream ends earlier. */
  async pass(bytes: number, see: (chunk: Buffer) => void = () => {}): Promise<void> {
    const missing = await this.#read(bytes, see);
    if (missing > 0 && missing < Infinity) throw new ImageRefused("it is truncated");
  }

  async #read(bytes: number, see: (chunk: Buffer) => void): Promise<number> {
    let missing = bytes;
    while (missing > 0) {
      if (this.#rest.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) return missing;
        this.#rest = next.value;
      }
      const part = this.#rest.subarray(0, Math.min(missing, this.#rest.length));
      this.#rest = this.#rest.subarray(part.length);
      this.position += part.length;
      missing -= part.length;
      if (part.length > 0) see(part);
    }
    return 0;
  }
}

type TarType = "file" | "directory" | "symlink" | "hard_link" | "pax" | "global" | "long_name" | "long_link" | "other";

interface TarHeader {
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
function textAt(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at);
  return block.toString("utf8", at, end === -1 ? at + length : Math.min(end, at + length));
}

/** Parses the header in a 512-byte block; undefined if the checksum is wrong. */
function readHeader(block: Buffer): TarHeader | undefined {
  const checksum = octal(textAt(block, CHECKSUM_AT, CHECKSUM_BYTES));
  let sum = 0;
  for (const [at, byte] of block.entries()) sum += at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_BYTES ? SPACE : byte;
  if (checksum === undefined || checksum !== sum) return undefined;
  const type = TYPES[String.fromCharCode(block[156] ?? 0)] ?? "other";
  const prefix = textAt(block, 257, 6) === "ustar" && block[263] === 0x30 ? textAt(block, 345, 155) : "";
  const name = textAt(block, 0, 100);
  const size = sizeAt(block);
  // Only files and extended headers have content. Ignore the sizes in all other headers.
  const has_bytes =
    type === "file" || type === "pax" || type === "global" || type === "long_name" || type === "long_link" || type === "other";
  return {
    type: type === "file" && name.endsWith("/") ? "directory" : type,
    name: prefix === "" ? name : `${prefix}/${name}`,
    link: textAt(block, 157, 100),
    size: has_bytes ? size : 0,
  };
}

/** Parses the size of an entry: octal digits. From 8 GiB on it is a marker byte followed by a binary number in eleven bytes. */
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

/** Parses the fields of an extended header, which override those of the entry. Each has the form `length key=value\n`. */
function readPax(content: Buffer): { name?: string; link?: string; size?: number } {
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
