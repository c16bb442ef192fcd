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
