import { StepFailure } from "./failure.ts";
import { ENTRY_NAME_BYTES_MAX, ENTRY_PATH_BYTES_MAX } from "./limits.ts";

const refuse = (name: string, why: string): StepFailure =>
  new StepFailure(
    "rejected_by_robot",
    `unsafe archive: entry ${JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name)} ${why}`,
  );

/** Returns the components of an archive's entry name; empty for the root itself. Throws StepFailure for an unsafe name. */
export function checkEntryPath(name: string): string[] {
  if (name.includes("\0")) throw refuse(name, "has a NUL in its name");
  if (name.includes("\\")) throw refuse(name, "has a backslash in its name");
  if (name.startsWith("/")) throw refuse(name, "has an absolute path");
  if (Buffer.byteLength(name) > ENTRY_PATH_BYTES_MAX) throw refuse(name, `has a path of more than ${ENTRY_PATH_BYTES_MAX} bytes`);
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  for (const part of parts) {
    if (part === "..") throw refuse(name, "leaves its folder");
    if (Buffer.byteLength(part) > ENTRY_NAME_BYTES_MAX) throw refuse(name, `has a name of more than ${ENTRY_NAME_BYTES_MAX} bytes`);
  }
  return parts;
}

type EntryKind = "file" | "directory" | "link";

/**
 * The names that an archive has used so far. Refuses a repeated name, even if it differs in case or Unicode form: on some file systems the second
 * would silently replace the first.
 */
export class EntryNames {
  readonly #seen = new Map<string, { path: string; kind: EntryKind }>();

  isFile(parts: string[]): boolean {
    const seen = this.#seen.get(fold(parts.join("/")));
    return seen?.kind === "file" && seen.path === parts.join("/");
  }

  addDirectory(parts: string[]): void {
    this.#addParents(parts);
    this.#put(parts.join("/"), "directory");
  }

  add(parts: string[], kind: "file" | "link"): void {
    this.#addParents(parts);
    const path = parts.join("/");
    if (this.#seen.has(fold(path))) throw refuse(path, "occurs twice (names that differ only in case count as the same)");
    this.#seen.set(fold(path), { path, kind });
  }

  #addParents(parts: string[]): void {
    for (let length = 1; length < parts.length; length += 1) this.#put(parts.slice(0, length).join("/"), "directory");
  }

  #put(path: string, kind: EntryKind): void {
    const seen = this.#seen.get(fold(path));
    if (seen === undefined) {
      this.#seen.set(fold(path), { path, kind });
      return;
    }
    if (seen.kind !== "directory") throw refuse(path, `goes through ${JSON.stringify(seen.path)}, which is a ${seen.kind}`);
    if (seen.path !== path) throw refuse(path, `differs from ${JSON.stringify(seen.path)} in case only`);
  }
}

const fold = (path: string): string => path.normalize("NFC").toLowerCase();
