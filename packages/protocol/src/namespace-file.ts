const SAFE = /[A-Za-z0-9_~-]/;

/**
 * Maximum bytes of an encoded file name. File systems allow 255 bytes, which must include an extension and the suffix of a temporary file.
 */
export const FILE_NAME_BYTES_MAX = 200;

/**
 * Encodes any text as one file name, such as the name of a config namespace on a robot. Percent-encodes all unsafe characters and a leading
 * dot, so that the name can never be a path, `.` or `..`. Other dots stay readable. The server refuses names longer than
 * FILE_NAME_BYTES_MAX.
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

/** Decodes the result of `encodeFileName`; undefined for any other name. */
export function decodeFileName(name: string): string | undefined {
  if (name === "%") return "";
  try {
    const text = decodeURIComponent(name);
    return encodeFileName(text) === name ? text : undefined;
  } catch {
    return undefined;
  }
}
