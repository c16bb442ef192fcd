import type { Fleet, Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { query } from "./queries.ts";

export interface Places {
  sites: readonly Site[];
  fleets: readonly Fleet[];
  /** Names by ID. The user cannot see objects whose IDs are missing. */
  site_names: ReadonlyMap<string, string>;
  fleet_names: ReadonlyMap<string, string>;
  /** Whether both lists are loaded. */
  is_read: boolean;
}

/** Loads all sites and fleets that the user can see, for names and selects. */
export function usePlaces(): Places {
  const sites = useQuery(query("listSites")).data?.items;
  const fleets = useQuery(query("listFleets")).data?.items;
  return useMemo(
    () => ({
      sites: sites ?? [],
      fleets: fleets ?? [],
      site_names: new Map((sites ?? []).map(({ id, name }) => [id, name])),
      fleet_names: new Map((fleets ?? []).map(({ id, name }) => [id, name])),
      is_read: sites !== undefined && fleets !== undefined,
    }),
    [sites, fleets],
  );
}
