import type { TargetSelector } from "@roamfleet/protocol/routes";
import type { NewDeploymentSearch } from "../../search.ts";

export const LABELS_WANTED = "Enter labels as key=value, separated by commas: zone=a, type=lift";

/** Parses `zone=a, type=lift` as labels; undefined if one is invalid or there is none. */
export function parseLabels(text: string): Record<string, string> | undefined {
  const pairs = text
    .split(",")
    .map((pair) => pair.trim())
    .filter((pair) => pair !== "");
  if (pairs.length === 0 || pairs.some((pair) => pair.indexOf("=") < 1)) return undefined;
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}

/** Interval at which the waves of a deployment are refetched, because no event reports that a queued robot went offline. */
export const OFFLINE_REFRESH_MS = 10_000;

/** What the form deploys to. */
export type Target = { kind: "robot" | "fleet"; id: string } | { kind: "selection"; selector: TargetSelector };
export type TargetKind = Target["kind"];

/** Returns the chosen target of a kind; undefined while it is incomplete, or its labels are invalid. */
export function targetOf(kind: TargetKind, chosen: NewDeploymentSearch, robot_ids: readonly string[]): Target | undefined {
  const { site_id, fleet_id, robot_id, labels: text } = chosen;
  if (kind !== "selection") {
    const id = kind === "robot" ? robot_id : fleet_id;
    return id === undefined ? undefined : { kind, id };
  }
  const labels = text === undefined ? undefined : parseLabels(text);
  // An invalid label must not be ignored: the deployment would include more robots.
  if (text !== undefined && labels === undefined) return undefined;
  const selector = {
    ...(site_id === undefined ? {} : { site_id }),
    ...(fleet_id === undefined ? {} : { fleet_id }),
    ...(labels === undefined ? {} : { labels }),
    ...(robot_ids.length === 0 ? {} : { robot_ids: [...robot_ids] }),
  };
  return Object.keys(selector).length === 0 ? undefined : { kind, selector };
}

/** Returns the kind of target that the parameters of the page choose. */
export function kindOf({ site_id, labels, robot_id }: NewDeploymentSearch, robot_ids: readonly string[]): TargetKind {
  if (site_id !== undefined || labels !== undefined || robot_ids.length > 0) return "selection";
  return robot_id === undefined ? "fleet" : "robot";
}

/** Maximum labels by which the server filters a list. */
const LABELS_MAX = 16;

/** Returns the filters of the list of robots that select the same robots; undefined if there are none. */
export function robotsFilter({ site_id, fleet_id, labels = {}, robot_ids }: TargetSelector) {
  const label = Object.entries(labels).map(([key, value]) => `${key}:${value}`);
  if (robot_ids !== undefined || label.length > LABELS_MAX) return undefined;
  return { site_id, fleet_id, ...(label.length === 0 ? {} : { label }) };
}

/** Returns the target as fields of a request. */
export function targetFields(target: Target): { robot_id: string } | { fleet_id: string } | { target_selector: TargetSelector } {
  if (target.kind === "selection") return { target_selector: target.selector };
  return target.kind === "robot" ? { robot_id: target.id } : { fleet_id: target.id };
}
