import type { Fleet, Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { query } from "./queries.ts";

export interface Places {
  sites: readonly Site[];
  fleets: readonly Fleet[];
  /** Names by id; an id that is not among them is one that the reader may not see. */
  site_names: ReadonlyMap<string, string>;
  fleet_names: ReadonlyMap<string, string>;
  /** Both lists are there. */
  is_read: boolean;
}

/** All sites and fleets that the reader may see: names for ids, and what selects offer. */
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
