import { hash } from "node:crypto";
import type { JsonValue } from "@roamfleet/protocol";

/** A namespace's file on a robot. */
export interface ConfigFile {
  /** JSON, keys sorted at every level, indented by two, with a newline at the end; encrypted where it is kept and a secret is in it. */
  content: string;
  /** Lower-case hex of the UTF-8 bytes. */
  sha256: string;
}

const SALT_BYTES = 16;

/** The same values make the same bytes, whatever order they were set in: equal files need no deployment. */
export function configFile(values: ReadonlyMap<string, JsonValue>): ConfigFile {
  const content = `${writeObject([...values], "")}\n`;
  return { content, sha256: hash("sha256", content) };
}

/**
 * Likewise for values that include secrets. The digest of a file is known to those who do not know its secrets, so a salt
 * stands behind the object, as spaces and tabs: without it a short secret could be guessed from the digest.
 */
export function saltedFile(values: ReadonlyMap<string, JsonValue>, saltOf: (text: string) => Uint8Array): ConfigFile {
  const { content } = configFile(values);
  const bits = Array.from(saltOf(content).subarray(0, SALT_BYTES), (byte) => byte.toString(2).padStart(8, "0")).join("");
  const salted = `${content}${bits.replaceAll("0", " ").replaceAll("1", "\t")}\n`;
  return { content: salted, sha256: hash("sha256", salted) };
}

function write(value: JsonValue, indent: string): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    const inner = `${indent}  `;
    return `[\n${value.map((item) => `${inner}${write(item, inner)}`).join(",\n")}\n${indent}]`;
  }
  if (typeof value === "object" && value !== null) return writeObject(Object.entries(value), indent);
  return JSON.stringify(value);
}

/** From entries, not from an object: a key may be `__proto__`, and an object sorts keys that look like numbers its own way. */
function writeObject(entries: readonly (readonly [string, JsonValue])[], indent: string): string {
  if (entries.length === 0) return "{}";
  const inner = `${indent}  `;
  const lines = entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${inner}${JSON.stringify(key)}: ${write(value, inner)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}
