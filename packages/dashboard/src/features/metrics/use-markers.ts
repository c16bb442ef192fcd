import type { Deployment, Incident } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import type { LinkProps } from "@tanstack/react-router";
import { useMemo } from "react";
import { query, usePlaces } from "../../api/queries.ts";
import type { Panel } from "../../search.ts";
import type { Period } from "./explorer.ts";

/** Maximum deployments, and maximum incidents, that a chart marks. */
export const EVENTS_MAX = 200;

/** An event on the time axis. */
export interface Marker {
  id: string;
  /** Seconds since 1970. */
  at: number;
  text: string;
  tone: "--bad" | "--warn" | "--info";
  link: LinkProps;
}

export interface Markers {
  /** Oldest first. */
  markers: readonly Marker[];
  /** Whether the period has more events than were loaded. */
  is_cut: boolean;
}

/**
 * Loads the newest deployments that were created in the period, and the unresolved incidents that were opened in it, for the scope of a
 * panel. Without events if the API cannot list those of the scope: several robots, or a label.
 */
export function useMarkers({ site_id, fleet_id, robot_id, label }: Panel, { since, until }: Period): Markers {
  const { fleets } = usePlaces();
  const enabled = label === undefined && (robot_id?.length ?? 0) < 2;
  const [one] = robot_id ?? [];
  const of_robot = one === undefined ? {} : { robot_id: one };
  const of_fleet = fleet_id === undefined ? {} : { fleet_id };
  const site = site_id ?? fleets.find(({ id }) => id === fleet_id)?.site_id;
  const deployments = useQuery({
    ...query("listDeployments", { query: { ...of_robot, ...of_fleet, cause: "request", since, until, limit: EVENTS_MAX } }),
    enabled,
  });
  const incidents = useQuery({
    ...query("listIncidents", {
      query: { ...of_robot, ...(site === undefined ? {} : { site_id: site }), unresolved: true, limit: EVENTS_MAX },
    }),
    enabled,
  });
  return useMemo(() => {
    if (!enabled) return { markers: [], is_cut: false };
    const fleets_there = new Set(fleets.filter((fleet) => fleet.site_id === site_id).map(({ id }) => id));
    const isThere = ({ fleet_id: to_fleet, target_selector: to }: Deployment): boolean =>
      to?.site_id === site_id || fleets_there.has(to_fleet ?? to?.fleet_id ?? "");
    const markers = [
      ...(deployments.data?.items ?? []).filter((one) => site_id === undefined || isThere(one)).map(deploymentMarker),
      ...(incidents.data?.items ?? [])
        .filter(({ raised_at }) => raised_at >= since && raised_at < until)
        // An incident without a fleet is that of the whole site, so it may concern the fleet.
        .filter((incident) => fleet_id === undefined || incident.fleet_id === null || incident.fleet_id === fleet_id)
        .map(incidentMarker),
    ].toSorted((a, b) => a.at - b.at);
    return { markers, is_cut: isCut(deployments.data, since) || isCut(incidents.data, since) };
  }, [enabled, deployments.data, incidents.data, fleets, site_id, fleet_id, since, until]);
}

/** Whether events that were not loaded may be in the period. The list is ordered by creation, newest first. */
const isCut = (list: { items: readonly { created_at: string }[]; next_cursor: string | null } | undefined, since: string): boolean =>
  list !== undefined && list.next_cursor !== null && (list.items.at(-1)?.created_at ?? "") >= since;

const deploymentMarker = ({ id, created_at, release: { tag } }: Deployment): Marker => ({
  id,
  at: Date.parse(created_at) / 1_000,
  text: `Deployment of ${tag}`,
  tone: "--info",
  link: { to: "/deployments/$id", params: { id } },
});

const incidentMarker = ({ id, raised_at, title, severity }: Incident): Marker => ({
  id,
  at: Date.parse(raised_at) / 1_000,
  text: `Incident: ${title}`,
  tone: severity === "critical" ? "--bad" : "--warn",
  link: { to: "/incidents/$id", params: { id } },
});
