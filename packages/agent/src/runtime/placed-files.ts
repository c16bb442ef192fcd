import path from "node:path";
import { makeDirectory, readJson, writeJson } from "../disk/write-atomically.ts";
import type { StatePaths } from "./paths.ts";

/** The files that an app's `file` releases have installed. */
export interface PlacedFiles {
  files: string[];
  /** Copies of the robot's own files that were replaced, by their original path. */
  originals: Record<string, string>;
}

const NOTHING: PlacedFiles = { files: [], originals: {} };

const placedFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "placed.json");

/**
 * Returns an empty record if the file is damaged, and calls `damaged`: files are deleted according to it, and one changed bit could name another
 * file.
 */
export function readPlaced(paths: StatePaths, app: string, damaged: () => void): PlacedFiles {
  const value = readJson(placedFile(paths, app), damaged);
  if (value === undefined) return NOTHING;
  if (isPlaced(value)) return value;
  damaged();
  return NOTHING;
}

export function writePlaced(paths: StatePaths, app: string, placed: PlacedFiles): void {
  makeDirectory(paths.app(app), 0o755);
  writeJson(placedFile(paths, app), placed);
}

function isPlaced(value: unknown): value is PlacedFiles {
  if (typeof value !== "object" || value === null) return false;
  const { files, originals } = value as Partial<PlacedFiles>;
  return Array.isArray(files) && typeof originals === "object" && originals !== null;
}
