import fs from "node:fs";
import path from "node:path";
import { StepFailure } from "./failure.ts";

const isBelow = (file: string, directory: string): boolean =>
  file.startsWith(directory.endsWith(path.sep) ? directory : directory + path.sep);

/**
 * Returns the path if it is below one of the directories of the robot's config file, after resolving all symlinks: the server must not decide where
 * it may write. Throws StepFailure `rejected_by_robot`.
 */
export function allowedPath(file: string, directories: readonly string[]): string {
  const wanted = path.resolve(file);
  if (directories.length === 0)
    throw new StepFailure(
      "rejected_by_robot",
      `manifest: path ${wanted}: this robot allows no files outside of its state directory (--allow-files)`,
    );
  const real = path.join(realAncestor(path.dirname(wanted)), path.basename(wanted));
  for (const directory of directories) {
    const root = fs.existsSync(directory) ? fs.realpathSync(directory) : path.resolve(directory);
    if (!isBelow(real, root)) continue;
    if (fs.statSync(real, { throwIfNoEntry: false })?.isDirectory())
      throw new StepFailure("rejected_by_robot", `manifest: path ${wanted} is a directory`);
    return real;
  }
  throw new StepFailure("rejected_by_robot", `manifest: path ${wanted} is not below a directory that this robot allows`);
}

/** Returns the real path of a directory whose last parts may not exist yet. */
function realAncestor(directory: string): string {
  if (fs.existsSync(directory)) return fs.realpathSync(directory);
  const parent = path.dirname(directory);
  return parent === directory ? directory : path.join(realAncestor(parent), path.basename(directory));
}
