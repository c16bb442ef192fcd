import type { Robot } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { api } from "../../api/client.ts";
import { type Change, type ChangeSummary, useChanges } from "../../api/events.ts";

/** Robots of one page of the map. */
export const HEAT_ROBOTS = 1_000;
/** A thousand robots are a megabyte to read: while many change at once, the map follows at this pace. */
const FOLLOW_MS = 2_000;

export interface HeatPage {
  items: Robot[];
  next_cursor: string | null;
}

/**
 * One page of a fleet's robots by name, read again as they change, but not at each change. Under a key of its own: what
 * reads the lists of robots again at once would otherwise read this with them.
 */
export function useHeat(fleet_id: string, cursor: string | undefined) {
  const client = useQueryClient();
  const is_stale = useRef(false);
  const watch = useCallback(
    ({ kind, fleet_id: of, from_fleet_id: from }: Change | ChangeSummary) => {
      if ((kind === "robot" && (of === undefined || of === fleet_id || from === fleet_id)) || kind === "target") is_stale.current = true;
    },
    [fleet_id],
  );
  useChanges(watch);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!is_stale.current || document.visibilityState !== "visible") return;
      is_stale.current = false;
      void client.invalidateQueries({ queryKey: ["heat", fleet_id] });
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [client, fleet_id]);
  return useQuery<HeatPage>({
    queryKey: ["heat", fleet_id, cursor ?? null],
    queryFn: async ({ signal }) => await api.listRobots({ query: { fleet_id, sort: "name", limit: HEAT_ROBOTS, cursor }, signal }),
    placeholderData: keepPreviousData,
  });
}
