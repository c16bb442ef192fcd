import type { Deployment } from "@robofleet/protocol/routes";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api } from "../../api/client.ts";

const ROWS_MAX = 200;
/** Not with each event of a target: a large deployment has thousands. */
const REFRESH_MS = 10_000;

const offlineQuery = (id: string) =>
  queryOptions({
    queryKey: ["offlineTargets", id],
    queryFn: async ({ signal }) => {
      const { items } = await api.listDeploymentTargets({ params: { id }, query: { status: "queued", limit: ROWS_MAX }, signal });
      return items.filter(({ waiting_for }) => waiting_for === "robot_online").length;
    },
    refetchInterval: REFRESH_MS,
  });

/** How many of the queued robots, of the first 200, are offline. */
export function useOfflineCount({ id, status, counts }: Deployment): number {
  const is_asked = counts.queued > 0 && (status === "queued" || status === "in_progress");
  return useQuery({ ...offlineQuery(id), enabled: is_asked }).data ?? 0;
}
