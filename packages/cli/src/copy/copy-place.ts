import path from "node:path";
import { usage } from "../failure.ts";

/** One side of a copy: a path of this machine, or of a robot. */
export interface CopyPlace {
  robot_id: string | undefined;
  path: string;
}

/** As scp reads it: a colon before any slash names a robot; `./a:b` is a file of this machine. */
export function parseCopyPlace(text: string): CopyPlace {
  const remote = /^([^/:]+):([^]*)$/.exec(text);
  if (remote === null) return { robot_id: undefined, path: text };
  const [, robot_id, where = ""] = remote;
  return { robot_id, path: where === "" ? "." : where };
}

/** Throws a Failure of usage unless exactly one side is a robot's. */
export function parseCopy(from: string, to: string): { source: CopyPlace; target: CopyPlace; robot_id: string } {
  const [source, target] = [parseCopyPlace(from), parseCopyPlace(to)];
  const robot_id = source.robot_id ?? target.robot_id;
  if (robot_id === undefined || (source.robot_id !== undefined && target.robot_id !== undefined))
    throw usage("one side has to be a robot's, and the other this machine's", "For example: rf robots cp rob_…:/var/log/nav.log ./");
  if (source.path === "" || target.path === "") throw usage("a path is empty");
  return { source, target, robot_id };
}

/** The name under which something is copied into a directory: its own as it was asked for, `resolved` only where that says none. */
export function nameFor(file: string, resolved: string): string {
  const name = path.basename(file);
  return ["", ".", ".."].includes(name) ? path.basename(resolved) : name;
}
