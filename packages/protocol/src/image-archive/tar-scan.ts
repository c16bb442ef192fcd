import { createHash } from "node:crypto";
import { ImageRefused } from "./image-refused.ts";
import { type TarHeader, readHeader, readPax, textAt } from "./tar-header.ts";

/** An image has a few hundred files at most: three per layer in the older format. */
const ENTRIES_MAX = 10_000;
const BLOCK_BYTES = 512;
/** Size limit of an extended header, which contains names and numbers. */
const EXTENSION_BYTES_MAX = 64 * 1024;
const NAME_CHARACTERS_MAX = 1_024;
const HEAD_BYTES = 4;

export interface TarFile {
  /** Offset of its content in the archive. */
  start: number;
  /** bytes */
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
 * Throws ImageRefused if it is malformed, has names that lead outside, or has more entries than an image can have.
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
  // A hard link contains an entry's full name, a symbolic link is relative to its own directory.
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

/** Reads a stream in parts of known length, buffering one chunk. */
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
