import type { Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";

/**
 * Loads the robot whose ID is in the URL. The frame of a robot's page shows loading and errors, so inside the frame the robot is always
 * loaded.
 */
export function useRobotQuery() {
  const id = useParams({ strict: false, select: ({ id: of }) => of ?? "" });
  return useQuery(query("getRobot", { params: { id } }));
}

export const useRobot = (): Robot | undefined => useRobotQuery().data?.data;

/** Refetch interval of a robot's health. Robots send measurements once a minute, but events report only changes of the health state. */
const REFRESH_MS = 10_000;

/** The latest health of a robot, refetched while it is shown. */
export const healthQuery = (id: string) => ({ ...query("getRobotHealth", { params: { id } }), refetchInterval: REFRESH_MS });
