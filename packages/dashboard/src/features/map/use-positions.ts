import type { RobotPosition } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client.ts";

const PAGE_ROWS = 1_000;
/** Maximum robots on the map. With more, the page asks for a filter. */
export const ROBOTS_MAX = 10_000;
/** Positions change without events. Robots send them with their metrics: every 15 minutes by default, or as `flush_seconds` sets. */
const REFRESH_MS = 15_000;

export interface PositionFilter {
  site_id?: string | undefined;
  fleet_id?: string | undefined;
  status?: RobotPosition["status"] | undefined;
}

export interface Positions {
  robots: readonly RobotPosition[];
  /** Whether there are more robots than the page loads. */
  is_cut: boolean;
}

/** Loads robots with their last positions, and refreshes them while the page is open. */
export function usePositions(filter: PositionFilter) {
  const { site_id, fleet_id, status } = filter;
  return useQuery({
    queryKey: ["listPositions", { query: { site_id, fleet_id, status } }],
    queryFn: async ({ signal }): Promise<Positions> => {
      const robots: RobotPosition[] = [];
      for (let cursor: string | undefined; ;) {
        const query = { site_id, fleet_id, status, limit: PAGE_ROWS, cursor };
        const { items, next_cursor } = (await api.call("listPositions", { query, signal })).body;
        robots.push(...items);
        if (next_cursor === null || robots.length >= ROBOTS_MAX) return { robots, is_cut: next_cursor !== null };
        cursor = next_cursor;
      }
    },
    refetchInterval: REFRESH_MS,
  });
}
