/** What a file tells of the release that is to be made of it, in the command line and in the browser alike: nothing of Node is used. */

const BLOCK_BYTES = 512;
const NAME_BYTES = 100;
const SIZE_AT = 124;
const SIZE_BYTES = 12;
/** Of an unpacked bundle, in which its manifest is looked for: bundles have it at their beginning or have few files before it. */
export const LOOK_BYTES_MAX = 256 * 1024 * 1024;
const GZIP = [0x1f, 0x8b] as const;

/**
 * A file's name, without a directory, and without its last extension. `.tar.gz` and its like count as one; a dot before a
 * digit is part of a version: `app-1.2.0` stays whole.
 */
export function defaultTag(name: string): string {
  const extension = /\.(?:tar\.gz|tar\.xz|tar\.zst|tgz)$/i.exec(name) ?? /\.[^.\d][^.]*$/.exec(name);
  return extension === null || extension.index === 0 ? name : name.slice(0, extension.index);
}

/** Whether these first bytes are those of a gzip file. */
export const isGzip = (head: Uint8Array): boolean => head[0] === GZIP[0] && head[1] === GZIP[1];

/** Whether an entry of this name makes an archive an app bundle. */
export const isBundleManifest = (name: string): boolean => /^(?:\.\/)?robofleet\.json$/.test(name);

/** Whether an entry of this name is one that the archive of an image has at its root. */
export const isImageIndex = (name: string): boolean => /^(?:\.\/)?(?:manifest|index)\.json$/.test(name);

/** Name of a tar entry, and the bytes from its header to the next one, of a block of 512 bytes; undefined for what is no header. */
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

/** The names in a tar archive, as its plain headers have them. Ends where it is broken, and after LOOK_BYTES_MAX. */
export async function* tarNames(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let rest: Uint8Array = new Uint8Array(0);
  let skip = 0;
  let seen = 0;
  for await (const chunk of stream) {
    seen += chunk.length;
    if (seen > LOOK_BYTES_MAX) return;
    rest = joined(rest, chunk);
    for (;;) {
      const skipped = Math.min(skip, rest.length);
      rest = rest.subarray(skipped);
      skip -= skipped;
      if (skip > 0 || rest.length < BLOCK_BYTES) break;
      const entry = readTarEntry(rest);
      if (entry === undefined) return;
      yield entry.name;
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
