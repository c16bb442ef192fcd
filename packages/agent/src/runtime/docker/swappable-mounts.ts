import { StepFailure } from "../failure.ts";

/** Whether a place is a directory or lies below it; both are absolute and without symlinks. */
export const isWithin = (place: string, directory: string): boolean =>
  place === directory || place.startsWith(directory === "/" ? directory : `${directory}/`);

/** A directory of the robot that a container has. */
export interface Bind {
  app: string;
  source: string;
  writable: boolean;
}

/**
 * Refuses a container a directory that lies below one which another container may write, and one to write that lies above
 * another's: the engine follows symlinks each time that it starts a container, so that whoever may write above could put one in
 * the place of what was looked at, and have it point anywhere on the robot. Throws StepFailure `rejected_by_robot`.
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
        `manifest: mount ${inner.source} of app ${inner.app} lies below ${outer.source}, which app ${outer.app} may write: it could put a symlink there; mount one of them read_only, or the whole in both`,
      );
    }
}
