import path from "node:path";
import { usage } from "../failure.ts";

/** One side of a copy: a path on this machine or on a robot. */
export interface CopyPlace {
  robot_id: string | undefined;
  path: string;
}

/**
 * Parses a source or destination as scp does: `ROBOT:PATH` is on a robot. With a slash before the colon, as in `./a:b`, it is a file on this
 * machine.
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
    throw usage("one side must be on a robot and the other on this machine", "For example: rf robots cp rob_…:/var/log/nav.log ./");
  if (source.path === "" || target.path === "") throw usage("a path is empty");
  return { source, target, robot_id };
}

/** Returns the name of the copy inside a target directory: the requested path's last part, or that of `resolved` if the path has none. */
export function nameFor(file: string, resolved: string): string {
  const name = path.basename(file);
  return ["", ".", ".."].includes(name) ? path.basename(resolved) : name;
}
