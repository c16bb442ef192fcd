import { useQuery } from "@tanstack/react-query";
import { ChartLine, Eye, type LucideIcon, Rocket, ScrollText } from "lucide-react";
import { query, useAction } from "../api/queries.ts";
import { useMay } from "../api/session.ts";
import type { Verb } from "./palette-verb.ts";

/** An entry of the palette: a page to open, or an action to run. */
export interface Entry {
  key: string;
  label: string;
  hint: string;
  icon: LucideIcon;
  to?: string;
  search?: object;
  run?: () => void;
}

const FOUND_MAX = 6;

/** Returns the entries for a verb: deploy to a fleet or deploy a release, open logs or metrics, acknowledge an incident. Empty without a verb. */
export function useActionEntries(verb: Verb | undefined, name: string): Entry[] {
  const may_change = useMay("operator");
  const asked = { query: { ...(name === "" ? {} : { q: name }), limit: FOUND_MAX } };
  const is_deploy = verb === "deploy" && may_change;
  const is_view = verb === "logs" || verb === "metrics";
  const fleets = useQuery({ ...query("listFleets", asked), enabled: is_deploy || is_view }).data?.items ?? [];
  const releases = useQuery({ ...query("listReleases", asked), enabled: is_deploy }).data?.items ?? [];
  const robots = useQuery({ ...query("listRobots", asked), enabled: is_view }).data?.items ?? [];
  const is_acknowledge = verb === "acknowledge" && may_change;
  const incidents = useQuery({ ...query("listIncidents", { query: { status: "open" } }), enabled: is_acknowledge }).data?.items ?? [];
  const acknowledging = useAction("acknowledgeIncident", { done: "Incident acknowledged" });
  if (is_deploy)
    return [
      ...releases.map(({ id, tag }) => ({ ...DEPLOY, key: `${verb} ${id}`, label: `Deploy ${tag}`, search: { release: tag } })),
      ...fleets.map(({ id, name: fleet }) => ({ ...DEPLOY, key: `${verb} ${id}`, label: `Deploy to ${fleet}`, search: { fleet_id: id } })),
    ];
  if (verb === "logs")
    return [
      ...robots.map(({ id, name: robot }) => ({ ...LOGS, key: `${verb} ${id}`, label: `Logs of ${robot}`, to: `/robots/${id}/logs` })),
      ...fleets.map(({ id, name: fleet }) => ({ ...LOGS, key: `${verb} ${id}`, label: `Logs of ${fleet}`, to: `/fleets/${id}/logs` })),
    ];
  if (verb === "metrics")
    return [
      ...robots.map(({ id, name: robot }) => ({
        ...METRICS,
        key: `${verb} ${id}`,
        label: `Metrics of ${robot}`,
        to: `/robots/${id}/metrics`,
      })),
      ...fleets.map(({ id, name: fleet }) => ({
        ...METRICS,
        key: `${verb} ${id}`,
        label: `Metrics of ${fleet}`,
        to: "/explore",
        search: { panels: [{ fleet_id: id, group_by: "robot" }] },
      })),
    ];
  if (is_acknowledge)
    return incidents
      .filter(({ title }) => title.toLowerCase().includes(name.toLowerCase()))
      .map(({ id, title }) => ({
        key: `${verb} ${id}`,
        label: `Acknowledge ${title}`,
        hint: "action",
        icon: Eye,
        run: () => acknowledging.mutate({ params: { id } }),
      }));
  return [];
}

const DEPLOY = { hint: "action", icon: Rocket, to: "/deployments/new" } as const;
const METRICS = { hint: "metrics", icon: ChartLine } as const;
const LOGS = { hint: "logs", icon: ScrollText } as const;
