import type { Robot } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { api } from "../../api/client.ts";
import { type Change, type ChangeSummary, useChanges } from "../../api/events.ts";

/** Robots per page of the map. */
export const HEAT_ROBOTS = 1_000;
/** Minimum interval between refetches: a page of a thousand robots is one megabyte. */
const FOLLOW_MS = 2_000;

export interface HeatPage {
  items: Robot[];
  next_cursor: string | null;
}

/**
 * Loads one page of a fleet's robots, sorted by name, and refetches it after changes, rate-limited. Its query key is separate: with the
 * key of robot lists, each change would refetch it immediately.
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
