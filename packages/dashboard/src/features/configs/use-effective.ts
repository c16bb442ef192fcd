import { useQuery } from "@tanstack/react-query";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import type { Scope } from "./configs-search.ts";
import { byName, type EffectiveValue, effectiveOf } from "./effective.ts";

export interface Effective {
  values: EffectiveValue[] | undefined;
  error: Error | null;
  retry: () => void;
}

/** Returns the effective values at a scope with their origins. For robots the server computes them; for wider scopes this page does. */
export function useEffective(scope: Scope, scope_id: string | undefined): Effective {
  const { fleets, is_read } = usePlaces();
  const is_robot = scope === "robot";
  const site_id = scope === "site" ? scope_id : scope === "fleet" ? fleets.find(({ id }) => id === scope_id)?.site_id : undefined;
  const robot = useQuery({ ...query("getRobotConfig", { params: { id: scope_id ?? "" } }), enabled: is_robot && scope_id !== undefined });
  const org = useQuery({ ...query("listConfigs", { query: { scope: "org" } }), enabled: !is_robot });
  const site = useQuery({ ...query("listConfigs", { query: { scope: "site", scope_id: site_id } }), enabled: site_id !== undefined });
  const fleet = useQuery({
    ...query("listConfigs", { query: { scope: "fleet", scope_id } }),
    enabled: scope === "fleet" && scope_id !== undefined,
  });
  if (is_robot) {
    return { values: robot.data?.data.effective.toSorted(byName), error: robot.error, retry: () => void robot.refetch() };
  }
  const wanted = [org, ...(site_id === undefined ? [] : [site]), ...(scope === "fleet" ? [fleet] : [])];
  const failed = wanted.find(({ isError }) => isError);
  const levels = wanted.map(({ data }) => data?.items);
  const is_whole = (scope !== "fleet" || is_read) && levels.every((level) => level !== undefined);
  return {
    values: is_whole ? effectiveOf(levels.map((level) => level ?? [])) : undefined,
    error: failed?.error ?? null,
    retry: () => {
      for (const one of wanted) if (one.isError) void one.refetch();
    },
  };
}
