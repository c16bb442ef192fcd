import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";

/** The query reads all robots, so changes of single robots do not cause a refetch. */
const REFRESH_MS = 10_000;

/** Restricts the overview to a site or a fleet. */
export type OverviewScope = { site_id: string } | { fleet_id: string } | Record<string, never>;

/** Loads the state of the fleets and the releases that their robots run. */
export const useFleetOverview = (scope: OverviewScope) =>
  useQuery({ ...query("getFleetOverview", { query: scope }), refetchInterval: REFRESH_MS });
