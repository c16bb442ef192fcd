import fs from "node:fs";
import path from "node:path";
import { writeFileDurably } from "./durable-file.ts";
import type { StatePaths } from "./paths.ts";

/** What `file` releases of an app have put on the robot. */
export interface PlacedFiles {
  files: string[];
  /** Copies of the robot's own files that ours replaced, by the place they stood in. */
  originals: Record<string, string>;
}

const placedFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "placed.json");

export function readPlaced(paths: StatePaths, app: string): PlacedFiles {
  try {
    return JSON.parse(fs.readFileSync(placedFile(paths, app), "utf8")) as PlacedFiles;
  } catch {
    return { files: [], originals: {} };
  }
}

export function writePlaced(paths: StatePaths, app: string, placed: PlacedFiles): void {
  fs.mkdirSync(paths.app(app), { recursive: true });
  writeFileDurably(placedFile(paths, app), JSON.stringify(placed));
}
