import type { RobotPosition } from "@roamfleet/protocol/routes";
import { useMemo } from "react";
import type { MapSearch } from "../../search.ts";
import { useNow, useOutage } from "../../ui/index.ts";
import { FLOOR_PLAN, type Frame, GEOGRAPHIC } from "./frames.ts";
import type { Placed } from "./marker.tsx";

/** An older position is drawn pale. */
const OLD_MS = 3_600_000;

export const isIn = (frame: Frame, { position }: RobotPosition): boolean => position !== null && frame.project(position) !== undefined;

interface PlacedRobots {
  frame: Frame;
  /** The robots with coordinates of the frame; of a floor plan, only those of its site. */
  placed: readonly Placed[];
  is_planar: boolean;
  /** Whether a robot has geographic coordinates. */
  is_geographic: boolean;
  /** The sites of the robots with coordinates of a floor plan. */
  sites: ReadonlySet<string>;
  /** The site whose floor plan is shown, if it is one. */
  plan_site: string | undefined;
}

/** Chooses the coordinates that a map shows: geographic ones, or those of the floor plan of one site. Returns the robots that have them. */
export function usePlaced(robots: readonly RobotPosition[], chosen: MapSearch): PlacedRobots {
  const now = useNow();
  // During an outage of the server, no position is current.
  const is_stale = useOutage() !== undefined;
  const sites = useMemo(() => new Set(robots.filter((robot) => isIn(FLOOR_PLAN, robot)).map(({ site_id }) => site_id)), [robots]);
  const is_geographic = useMemo(() => robots.some((robot) => isIn(GEOGRAPHIC, robot)), [robots]);
  const is_planar = sites.size > 0 && (chosen.frame === "plan" || !is_geographic);
  const plan_site = is_planar ? (chosen.site_id ?? [...sites][0]) : undefined;
  const frame = is_planar ? FLOOR_PLAN : GEOGRAPHIC;
  const placed = useMemo(
    () =>
      robots.flatMap((robot) => {
        const { position } = robot;
        const point = position === null || (plan_site !== undefined && robot.site_id !== plan_site) ? undefined : frame.project(position);
        return point === undefined ? [] : [{ ...point, robot, is_old: is_stale || now - Date.parse(position!.at) > OLD_MS }];
      }),
    [robots, frame, plan_site, now, is_stale],
  );
  return { frame, placed, is_planar, is_geographic, sites, plan_site };
}
