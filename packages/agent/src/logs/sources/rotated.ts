import { closeSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { openRegular, readHead, statOf, Tail, type TailState } from "./tail.ts";

/** Compressed after rotation: they cannot be read from a position in the middle. */
const PACKED = /\.(?:gz|xz|zst|bz2|lz4|Z|zip)$/;
/** Maximum files beside a log that are examined. */
const SIBLINGS_MAX = 200;

interface Sibling {
  path: string;
  mtime_ms: number;
}

/** Returns the files that a log was renamed or copied to (`app.log.1`, `app.log-20300101`), oldest first. */
export function rotatedFiles(path: string): Sibling[] {
  const [directory, name] = [dirname(path), basename(path)];
  let entries: string[];
  try {
    entries = readdirSync(directory);
  } catch {
    return [];
  }
  const stem = name.replace(/\.[^.]*$/, "");
  const isRotated = (entry: string): boolean =>
    entry !== name &&
    !PACKED.test(entry) &&
    (entry.startsWith(`${name}.`) || entry.startsWith(`${name}-`) || entry.startsWith(`${stem}-`) || entry.startsWith(`${stem}.`));
  return entries
    .filter(isRotated)
    .slice(0, SIBLINGS_MAX)
    .flatMap((entry) => {
      const found = join(directory, entry);
      const stat = statOf(found);
      return stat?.isFile() === true ? [{ path: found, mtime_ms: stat.mtimeMs }] : [];
    })
    .toSorted((a, b) => a.mtime_ms - b.mtime_ms);
}

/** Opens the file of a saved state at its position; undefined if the path now has another file. */
export function reopen(path: string, state: TailState, how: "same_file" | "copy"): Tail | undefined {
  const opened = openRegular(path);
  if (opened === undefined) return undefined;
  const { handle, stat } = opened;
  const head = Buffer.from(state.head, "base64");
  const is_same = stat.dev === state.dev && stat.ino === state.ino;
  try {
    if (
      (is_same || how === "copy") &&
      stat.size >= state.offset &&
      head.length > 0 === state.offset > 0 &&
      readHead(handle, head.length).equals(head)
    )
      return new Tail(handle, stat, { offset: state.offset, skipping: state.skipping, head });
  } catch {
    // The disk cannot read it.
  }
  closeSync(handle);
  return undefined;
}

/** Returns the rest of a file that is no longer at its path, or was truncated: the file that it was renamed or copied to. */
export function findRotated(path: string, state: TailState): { tail: Tail; mtime_ms: number } | undefined {
  const siblings = rotatedFiles(path).toReversed();
  for (const how of ["same_file", "copy"] as const) {
    // Nothing was read of it, so a copy cannot be recognized.
    if (how === "copy" && state.offset === 0) continue;
    for (const sibling of siblings) {
      const tail = reopen(sibling.path, state, how);
      if (tail !== undefined) return { tail, mtime_ms: sibling.mtime_ms };
    }
  }
  return undefined;
}
