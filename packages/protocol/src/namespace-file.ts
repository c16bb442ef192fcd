const SAFE = /[A-Za-z0-9_~-]/;
/** Most file systems take 255 bytes; `.json` and a temporary suffix come on top. */
export const FILE_NAME_BYTES_MAX = 200;

/**
 * Any text as one file name: percent-encoded, a leading dot too, so that it can never be a path, `.` or `..`.
 * Inner dots stay readable. The server refuses namespaces whose name grows over FILE_NAME_BYTES_MAX bytes.
 */
export function encodeFileName(text: string): string {
  let name = "";
  for (const byte of new TextEncoder().encode(text)) {
    const character = String.fromCharCode(byte);
    const plain = SAFE.test(character) || (character === "." && name !== "");
    name += plain ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return name === "" ? "%" : name;
}

/** The text that `encodeFileName` was given; undefined when the name is not one of its answers. */
export function decodeFileName(name: string): string | undefined {
  try {
    const text = decodeURIComponent(name);
    return encodeFileName(text) === name ? text : undefined;
  } catch {
    return undefined;
  }
}
