import type { Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";

/** The robot of the page's address. Its frame shows how the reading of it went; inside of it, it is there. */
export function useRobotQuery() {
  const id = useParams({ strict: false, select: ({ id: of }) => of ?? "" });
  return useQuery(query("getRobot", { params: { id } }));
}

export const useRobot = (): Robot | undefined => useRobotQuery().data?.data;
