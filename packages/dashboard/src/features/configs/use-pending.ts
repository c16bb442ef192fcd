import type { ConfigEntry, Fleet } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { pendingFleets } from "./pending.ts";

const DEPLOYMENTS_MAX = 500;

/** Config deployments of the organization, newest first, and the time from which the list is complete; undefined until loaded. */
function useDeployments() {
  const read = useQuery(query("listConfigDeployments", { query: { cause: "request", limit: DEPLOYMENTS_MAX } })).data;
  if (read === undefined) return undefined;
  const oldest = read.items.at(-1);
  const complete_since_ms = read.next_cursor === null || oldest === undefined ? 0 : Date.parse(oldest.created_at);
  return { deployments: read.items, complete_since_ms };
}

/** Fleets to which the current value of an entry was not deployed. */
export function usePendingFleets(entry: ConfigEntry): readonly Fleet[] {
  const { fleets } = usePlaces();
  const known = useDeployments();
  return known === undefined ? [] : pendingFleets(entry, fleets, known.deployments, known.complete_since_ms);
}

/** Number of values that changed since they were deployed to the fleet. */
export function usePendingCount(fleet: Fleet): number {
  const known = useDeployments();
  const scopes = [{ scope: "org" }, { scope: "site", scope_id: fleet.site_id }, { scope: "fleet", scope_id: fleet.id }] as const;
  const entries = useQueries({
    queries: scopes.flatMap((scope) => [
      query("listConfigs", { query: scope }),
      query("listConfigs", { query: { ...scope, removed: true } }),
    ]),
  }).flatMap(({ data }) => data?.items ?? []);
  if (known === undefined) return 0;
  return entries.filter((entry) => pendingFleets(entry, [fleet], known.deployments, known.complete_since_ms).length > 0).length;
}
