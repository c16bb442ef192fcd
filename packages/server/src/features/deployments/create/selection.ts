import type { TargetSelector } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { badRequest, conflict, notFound } from "../../../kernel/fault.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { findFleetSite, listPlaceNames, listSelectable, siteExists } from "../store/selection.ts";

/** Throws 400 if a selector has no part or contradicts itself, 404 if it names something that the org does not have. */
export async function requireSelector(db: Db, org_id: string, selector: TargetSelector): Promise<void> {
  const { site_id, fleet_id, labels, robot_ids } = selector;
  if ([site_id, fleet_id, labels, robot_ids].every((part) => part === undefined))
    throw badRequest("target_selector needs at least one of site_id, fleet_id, labels and robot_ids");
  if (labels !== undefined && Object.keys(labels).length === 0)
    throw badRequest("target_selector.labels contains no label; remove it to select by the other parts only");
  if (site_id !== undefined && !(await siteExists(db, org_id, site_id))) throw notFound("site", site_id);
  if (fleet_id !== undefined) {
    const site_of_fleet = await findFleetSite(db, org_id, fleet_id);
    if (site_of_fleet === undefined) throw notFound("fleet", fleet_id);
    if (site_id !== undefined && site_of_fleet !== site_id) throw badRequest(`fleet ${fleet_id} does not belong to site ${site_id}`);
  }
  if (robot_ids !== undefined) await requireRobots(db, org_id, robot_ids);
}

async function requireRobots(db: Db, org_id: string, ids: readonly string[]): Promise<void> {
  const found = new Map((await listSelectable(db, org_id, ids)).map((robot) => [robot.id, robot]));
  for (const id of ids) {
    const robot = found.get(id);
    if (robot === undefined) throw notFound("robot", id);
    if (robot.decommissioned) throw conflict(`robot ${id} is decommissioned`);
  }
}

/** Returns the selection of a deployment in words; null if its target is not a selection. */
export async function selectionText(
  db: Db,
  org_id: string,
  { target_selector }: Pick<DeploymentRow, "target_selector">,
): Promise<string | null> {
  return (await selectionTexts(db, org_id, [target_selector]))[0] ?? null;
}

/** Returns each selector in words, such as `robots of site Hall A with line=3`. A deleted site or fleet appears as its id. */
export async function selectionTexts(db: Db, org_id: string, selectors: readonly (TargetSelector | null)[]): Promise<(string | null)[]> {
  const ids = new Set(selectors.flatMap((selector) => [selector?.site_id ?? [], selector?.fleet_id ?? []].flat()));
  const names = ids.size === 0 ? new Map<string, string>() : await listPlaceNames(db, org_id, [...ids]);
  return selectors.map((selector) => (selector === null ? null : inWords(selector, names)));
}

function inWords({ site_id, fleet_id, labels, robot_ids }: TargetSelector, names: ReadonlyMap<string, string>): string {
  const robots = robot_ids === undefined ? "robots" : `${robot_ids.length} selected robot${robot_ids.length === 1 ? "" : "s"}`;
  const place = [
    ...(fleet_id === undefined ? [] : [` of fleet ${names.get(fleet_id) ?? fleet_id}`]),
    ...(site_id === undefined ? [] : [` of site ${names.get(site_id) ?? site_id}`]),
  ].join("");
  const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return `${robots}${place}${pairs.length === 0 ? "" : ` with ${pairs.join(", ")}`}`;
}
