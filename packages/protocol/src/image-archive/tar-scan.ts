import { createHash } from "node:crypto";
import { ImageRefused } from "./image-refused.ts";
import { type TarHeader, readHeader, readPax, textAt } from "./tar-header.ts";

/** An image has some hundred files at most: three for each of its layers, in the older of its forms. */
const ENTRIES_MAX = 10_000;
const BLOCK_BYTES = 512;
/** Of an extended header: names and numbers. */
const EXTENSION_BYTES_MAX = 64 * 1024;
const NAME_CHARACTERS_MAX = 1_024;
const HEAD_BYTES = 4;

export interface TarFile {
  /** Where its bytes begin in the archive. */
  start: number;
  /** bytes */
  size: number;
  /** Of its bytes, lower-case hex. */
  sha256: string;
  /** Its first bytes, by which a compression is known. */
  head: Buffer;
}

export interface TarContents {
  files: Map<string, TarFile>;
  /** Symbolic and hard links within the archive: name to name. */
  links: Map<string, string>;
}

/**
 * Reads a tar archive once, from its beginning to its end, and keeps no more of it than where its files lie and what their
 * digests are. undefined: this is no tar archive. Throws ImageRefused for one that is broken, has names that lead out of it,
 * or more entries than an image has.
 */
export async function scanTar(stream: AsyncIterable<Buffer>, archive_bytes: number): Promise<TarContents | undefined> {
  const reader = new Reader(stream);
  const contents: TarContents = { files: new Map(), links: new Map() };
  for (let entries = 0; ;) {
    const next = await readEntry(reader, archive_bytes);
    if (entries === 0 && (next === "no_tar" || next === "end")) return undefined;
    if (next === "no_tar") throw new ImageRefused(`at byte ${reader.position - BLOCK_BYTES} there is no header of an entry`);
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

/** The next entry, with what the extended headers before it say. The reader stands at its content then. */
async function readEntry(reader: Reader, archive_bytes: number): Promise<Entry | "end" | "no_tar"> {
  const said: Partial<Entry> = {};
  for (;;) {
    const block = await reader.take(BLOCK_BYTES);
    if (block === undefined || block.every((byte) => byte === 0)) {
      if (Object.keys(said).length > 0) throw new ImageRefused("it is cut off");
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
    if (content === undefined) throw new ImageRefused("it is cut off");
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
      throw new ImageRefused(`entry ${shown(name)} is there twice, with different contents`);
    files.set(name, file);
    return;
  }
  if (files.has(name) || links.has(name)) throw new ImageRefused(`entry ${shown(name)} is there twice`);
  // A hard link names an entry, a symbolic one leads there from where it lies.
  const from = type === "hard_link" || link.startsWith("/") ? "" : `${name.split("/").slice(0, -1).join("/")}/`;
  links.set(name, plainName(from === "/" ? link : `${from}${link}`));
  await reader.pass(padded(size));
}

/** The name without `.`, and without `..` where that stays inside. Throws for one that leads out of the archive. */
function plainName(name: string): string {
  if (name.length > NAME_CHARACTERS_MAX || name.includes("\0")) throw new ImageRefused(`entry ${shown(name)} has no possible name`);
  if (name.startsWith("/")) throw new ImageRefused(`entry ${shown(name)} leads out of the archive`);
  const parts: string[] = [];
  for (const part of name.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) throw new ImageRefused(`entry ${shown(name)} leads out of the archive`);
  }
  return parts.join("/");
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 100));
const padded = (bytes: number): number => Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;

/** A stream, read in stretches of known length. Keeps one chunk of it. */
class Reader {
  position = 0;
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** So many bytes; undefined when the stream ends before. */
  async take(bytes: number): Promise<Buffer | undefined> {
    const parts: Buffer[] = [];
    const missing = await this.#read(bytes, (chunk) => void parts.push(chunk));
    return missing > 0 ? undefined : Buffer.concat(parts);
  }

  /** Hands so many bytes to `see`, or all that are left for Infinity. Throws when the stream ends before. */
  async pass(bytes: number, see: (chunk: Buffer) => void = () => {}): Promise<void> {
    const missing = await this.#read(bytes, see);
    if (missing > 0 && missing < Infinity) throw new ImageRefused("it is cut off");
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
