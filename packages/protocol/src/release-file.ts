/** Detects release metadata from a file, for the command line and the browser: uses no Node APIs. */

const BLOCK_BYTES = 512;
const NAME_BYTES = 100;
const SIZE_AT = 124;
const SIZE_BYTES = 12;
/** Maximum bytes of an unpacked bundle that are searched for its manifest. Bundles contain it near the beginning. */
export const LOOK_BYTES_MAX = 256 * 1024 * 1024;
const GZIP = [0x1f, 0x8b] as const;
const SQUASHFS = [0x68, 0x73, 0x71, 0x73] as const;
/** Number of first bytes that `isGzip` and `isOsImage` need. */
export const HEAD_BYTES = 4;

/**
 * Returns a file's name without its directory and last extension. `.tar.gz` and similar count as one extension. A dot before a digit
 * belongs to a version, so `app-1.2.0` stays unchanged.
 */
export function defaultTag(name: string): string {
  const extension = /\.(?:tar\.gz|tar\.xz|tar\.zst|tgz)$/i.exec(name) ?? /\.[^.\d][^.]*$/.exec(name);
  return extension === null || extension.index === 0 ? name : name.slice(0, extension.index);
}

/** Returns whether these first bytes are of a gzip file. */
export const isGzip = (head: Uint8Array): boolean => head[0] === GZIP[0] && head[1] === GZIP[1];

/** Returns whether these first bytes are of a RAUC bundle, which is a squashfs file system. */
export const isOsImage = (head: Uint8Array): boolean => SQUASHFS.every((byte, i) => head[i] === byte);

/** Returns whether an entry of this name makes an archive an app bundle. */
export const isBundleManifest = (name: string): boolean => /^(?:\.\/)?roamfleet\.json$/.test(name);

/** Returns whether an image archive has an entry of this name at its root. */
export const isImageIndex = (name: string): boolean => /^(?:\.\/)?(?:manifest|index)\.json$/.test(name);

/**
 * Parses a 512-byte block as the header of a tar entry. Returns the entry's name and the distance to the next header; undefined if the
 * block is no header.
 */
export function readTarEntry(block: Uint8Array): { name: string; length: number } | undefined {
  const name = textAt(block, 0, NAME_BYTES);
  const size = Number.parseInt(textAt(block, SIZE_AT, SIZE_BYTES).trim() || "0", 8);
  if (name === "" || !Number.isSafeInteger(size)) return undefined;
  return { name, length: BLOCK_BYTES + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES };
}

function textAt(block: Uint8Array, at: number, length: number): string {
  const part = block.subarray(at, at + length);
  const end = part.indexOf(0);
  return new TextDecoder().decode(end === -1 ? part : part.subarray(0, end));
}

/** Lists the names in a tar archive from its plain headers. Stops at malformed content and after LOOK_BYTES_MAX. */
export async function* tarNames(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  for await (const { name } of tarEntries(stream, { bytes_max: LOOK_BYTES_MAX })) yield name;
}

interface TarEntry {
  name: string;
  /** The content with its padding; absent unless `wants` returned true. */
  content?: Uint8Array;
}

interface TarEntriesOptions {
  /** Number of bytes after which reading stops. */
  bytes_max?: number;
  /** Returns whether to read the content of an entry into memory. `length`: bytes of its header and of its content with padding. */
  wants?: (entry: { name: string; length: number }) => boolean;
}

/** Reads the entries of a tar archive from their plain headers. Stops at malformed content. */
export async function* tarEntries(
  stream: AsyncIterable<Uint8Array>,
  { bytes_max = Infinity, wants = () => false }: TarEntriesOptions,
): AsyncGenerator<TarEntry> {
  let rest: Uint8Array = new Uint8Array(0);
  let skip = 0;
  let seen = 0;
  for await (const chunk of stream) {
    seen += chunk.length;
    if (seen > bytes_max) return;
    rest = joined(rest, chunk);
    for (;;) {
      const skipped = Math.min(skip, rest.length);
      rest = rest.subarray(skipped);
      skip -= skipped;
      if (skip > 0 || rest.length < BLOCK_BYTES) break;
      const entry = readTarEntry(rest);
      if (entry === undefined) return;
      const is_wanted = wants(entry);
      if (is_wanted && rest.length < entry.length) break;
      yield { name: entry.name, ...(is_wanted && { content: rest.subarray(BLOCK_BYTES, entry.length) }) };
      skip = entry.length;
    }
  }
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  if (a.length === 0) return b;
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}
