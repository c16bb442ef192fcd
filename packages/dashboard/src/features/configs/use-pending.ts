import type { ConfigEntry, Fleet } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { pendingFleets } from "./pending.ts";

const DEPLOYMENTS_MAX = 500;

/** Config deployments of the org, the newest first, and since when none of them is missing; undefined until they are read. */
function useDeployments() {
  const read = useQuery(query("listConfigDeployments", { query: { cause: "request", limit: DEPLOYMENTS_MAX } })).data;
  if (read === undefined) return undefined;
  const oldest = read.items.at(-1);
  const complete_since_ms = read.next_cursor === null || oldest === undefined ? 0 : Date.parse(oldest.created_at);
  return { deployments: read.items, complete_since_ms };
}

/** Fleets that have not got the present value of an entry. */
export function usePendingFleets(entry: ConfigEntry): readonly Fleet[] {
  const { fleets } = usePlaces();
  const known = useDeployments();
  return known === undefined ? [] : pendingFleets(entry, fleets, known.deployments, known.complete_since_ms);
}

/** How many values that apply to a fleet changed since they were deployed to it. */
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
