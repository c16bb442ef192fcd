import { BlobError } from "./blobs.ts";

/** Does not start with a dot, so that it cannot be `.`, `..` or a hidden file. */
const PART = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;

/** Splits a key `<owner>/<name>`. Throws `bad_key` for anything else, including paths that leave a directory. */
export function splitKey(key: string): { owner: string; name: string } {
  const [owner = "", name = "", ...rest] = key.split("/");
  if (rest.length > 0 || !PART.test(owner) || !PART.test(name))
    throw new BlobError("bad_key", `not a blob key: ${JSON.stringify(key.slice(0, 300))}`);
  return { owner, name };
}

/** Returns the owner of a prefix `<owner>/`; undefined for "", which means all owners. Throws `bad_key`. */
export function splitPrefix(prefix: string): string | undefined {
  if (prefix === "") return undefined;
  const owner = prefix.slice(0, -1);
  if (!prefix.endsWith("/") || !PART.test(owner))
    throw new BlobError("bad_key", `not a blob prefix: ${JSON.stringify(prefix.slice(0, 300))}`);
  return owner;
}
