import type { Fleet, Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { query } from "../../api/queries.ts";

/** Maximum fleets and sites in selects. Further ones are reachable from their own pages. */
const LISTED_MAX = 1_000;
const NONE: readonly never[] = [];

export interface Places {
  fleets: readonly Fleet[];
  sites: readonly Site[];
  fleetName: (id: string) => string | undefined;
  siteName: (id: string) => string | undefined;
}

const names = (places: readonly { id: string; name: string }[]): Map<string, string> => new Map(places.map(({ id, name }) => [id, name]));

/** Loads the fleets and sites that the user can see, with their names by ID. */
export function usePlaces(): Places {
  const fleets = useQuery(query("listFleets", { query: { limit: LISTED_MAX } })).data?.items ?? NONE;
  const sites = useQuery(query("listSites", { query: { limit: LISTED_MAX } })).data?.items ?? NONE;
  return useMemo(() => {
    const [fleet_names, site_names] = [names(fleets), names(sites)];
    return { fleets, sites, fleetName: (id) => fleet_names.get(id), siteName: (id) => site_names.get(id) };
  }, [fleets, sites]);
}
