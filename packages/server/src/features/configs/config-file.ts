import { hash } from "node:crypto";
import type { JsonValue } from "@roamfleet/protocol";

/** The config file of a namespace on a robot. */
export interface ConfigFile {
  /** JSON with sorted keys at every level, indented by two, and a final newline. Stored encrypted if it contains a secret. */
  content: string;
  /** Lower-case hex of the UTF-8 bytes. */
  sha256: string;
}

const SALT_BYTES = 16;

/** Builds a file. The same values give the same bytes in any order, so equal files need no deployment. */
export function configFile(values: ReadonlyMap<string, JsonValue>): ConfigFile {
  const content = `${writeObject([...values], "")}\n`;
  return { content, sha256: hash("sha256", content) };
}

/**
 * Builds a file from values that include secrets. The digest is visible to users who may not see the secrets, so a salt is appended to the
 * object, as spaces and tabs: without it a short secret could be guessed from the digest.
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

/** Writes entries rather than an object: a key may be `__proto__`, and an object reorders keys that look like numbers. */
function writeObject(entries: readonly (readonly [string, JsonValue])[], indent: string): string {
  if (entries.length === 0) return "{}";
  const inner = `${indent}  `;
  const lines = entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${inner}${JSON.stringify(key)}: ${write(value, inner)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}
