import path from "node:path";
import { usage } from "../failure.ts";

/** One side of a copy: a path on this machine or on a robot. */
export interface CopyPlace {
  robot_id: string | undefined;
  path: string;
}

/**
 * Parses a source or destination as scp does. `ROBOT:PATH` is a path on a robot. A text with a slash before the colon, such as `./a:b`, is
 * a path on this machine.
 */
export function parseCopyPlace(text: string): CopyPlace {
  const remote = /^([^/:]+):([^]*)$/.exec(text);
  if (remote === null) return { robot_id: undefined, path: text };
  const [, robot_id, where = ""] = remote;
  return { robot_id, path: where === "" ? "." : where };
}

/** Throws a usage Failure unless exactly one side is on a robot. */
export function parseCopy(from: string, to: string): { source: CopyPlace; target: CopyPlace; robot_id: string } {
  const [source, target] = [parseCopyPlace(from), parseCopyPlace(to)];
  const robot_id = source.robot_id ?? target.robot_id;
  if (robot_id === undefined || (source.robot_id !== undefined && target.robot_id !== undefined))
    throw usage("one path must be on a robot and the other on this machine", "For example: rf robots cp rob_…:/var/log/nav.log ./");
  if (source.path === "" || target.path === "") throw usage("a path is empty");
  return { source, target, robot_id };
}

/**
 * Returns the name of the copy inside a target directory: the last part of the requested path, or of `resolved` if the path has no name.
 */
export function nameFor(file: string, resolved: string): string {
  const name = path.basename(file);
  return ["", ".", ".."].includes(name) ? path.basename(resolved) : name;
}
