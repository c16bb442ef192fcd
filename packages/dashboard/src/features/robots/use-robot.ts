import type { Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";

/** Loads the robot in the URL. The frame shows loading and errors; inside the frame the robot is always loaded. */
export function useRobotQuery() {
  const id = useParams({ strict: false, select: ({ id: of }) => of ?? "" });
  return useQuery(query("getRobot", { params: { id } }));
}

export const useRobot = (): Robot | undefined => useRobotQuery().data?.data;

/** Refetch interval. Robots report once a minute, and only a change of the health state is an event. */
const REFRESH_MS = 10_000;

/** The latest health of a robot, refetched while it is shown. */
export const healthQuery = (id: string) => ({ ...query("getRobotHealth", { params: { id } }), refetchInterval: REFRESH_MS });
