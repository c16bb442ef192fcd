import { StepFailure } from "../failure.ts";

/** Whether a path is a directory or below it; both are absolute and without symlinks. */
export const isWithin = (place: string, directory: string): boolean =>
  place === directory || place.startsWith(directory === "/" ? directory : `${directory}/`);

/** A host directory mounted into a container. */
export interface Bind {
  app: string;
  source: string;
  writable: boolean;
}

/**
 * Refuses a directory below one that another container may write, and a writable one above another container's. The engine resolves symlinks at each
 * start of a container. A container that may write a parent directory could replace the checked directory by a symlink to any path on the robot.
 * Throws StepFailure `rejected_by_robot`.
 */
export function refuseSwappable(wanted: readonly Bind[], others: readonly Bind[]): void {
  for (const bind of wanted)
    for (const other of [...wanted, ...others]) {
      if (bind.source === other.source) continue;
      const below = other.writable && isWithin(bind.source, other.source);
      const above = bind.writable && isWithin(other.source, bind.source);
      if (!below && !above) continue;
      const [inner, outer] = below ? [bind, other] : [other, bind];
      throw new StepFailure(
        "rejected_by_robot",
        `manifest: mount ${inner.source} of app ${inner.app} lies below ${outer.source}, which app ${outer.app} may write: it could put a symlink there; mount one of them read_only, or the same directory in both`,
      );
    }
}
