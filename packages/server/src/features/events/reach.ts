import type { ChangeKind } from "@roamfleet/protocol/routes";
import type { FindPlaces, Found, PlacedKind } from "../../kernel/authorize.ts";
import { roleOnFound } from "../../kernel/authorize.ts";
import { type Caller, mayInWholeOrg, namedFleets, seesWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { AnnouncedChange } from "./announce.ts";

/** Who may see a change: all members of the org, admins of the whole org, or users who see the changed object. */
type Audience = "members" | "admins" | { of: PlacedKind; by: "id" | "robot_id" };

const OF_ROBOT = { of: "robot", by: "robot_id" } as const;

/**
 * The audience of each kind of change. It equals the audience of the list of these objects in the authorization table. A kind without an
 * entry does not compile.
 */
const AUDIENCE: Record<ChangeKind, Audience> = {
  robot: { of: "robot", by: "id" },
  fleet: { of: "fleet", by: "id" },
  site: { of: "site", by: "id" },
  release: "members",
  deployment: { of: "deployment", by: "id" },
  target: OF_ROBOT,
  config_deployment: { of: "config_deployment", by: "id" },
  config_target: OF_ROBOT,
  config: { of: "config", by: "id" },
  config_schema: "members",
  enrollment_key: { of: "enrollment_key", by: "id" },
  timeline: OF_ROBOT,
  shell_session: OF_ROBOT,
  alert_rule: { of: "alert_rule", by: "id" },
  alert_mute: { of: "alert_mute", by: "id" },
  incident: { of: "incident", by: "id" },
  user: "admins",
  token: "admins",
  org: "members",
  signing_keys: "admins",
  channel: "admins",
  // Only changes of shared views are published.
  saved_view: "members",
};

/**
 * A change with the places (site and fleet) of its object. They decide whether a reader that is limited to certain sites or fleets may see
 * the change.
 */
export interface PlacedChange {
  change: AnnouncedChange;
  /**
   * Undefined if the places are not looked up yet. Empty if the object has no site or fleet, so that readers limited to sites or fleets do
   * not see the change.
   */
  found?: readonly Found[];
}

/** Whether the caller may see only certain sites or fleets, so that those of changed objects have to be looked up. */
export const isLimited = (caller: Caller): boolean => !seesWholeOrg(caller);

/**
 * Returns the part of a change that the caller may see, or undefined. If an object moved and the caller sees only its old or only its new
 * site and fleet, omits the other ones.
 */
export function seenBy(caller: Caller, { change, found = [] }: PlacedChange): AnnouncedChange | undefined {
  const audience = AUDIENCE[change.kind];
  if (audience === "members") return change;
  if (audience === "admins") return mayInWholeOrg(caller, "admin") ? change : undefined;
  if (seesWholeOrg(caller)) return change;
  const seen = found.filter((one) => roleOnFound(caller, one) !== undefined);
  if (seen.length === found.length) return found.length === 0 ? undefined : change;
  const [first] = seen;
  if (first === undefined) return undefined;
  // The caller sees only the old or only the new site and fleet of a move: omit the other ones.
  const { from_fleet_id: _fleet, from_site_id: _site, ...rest } = change;
  const { fleet_id, site_id } = first.place;
  return { ...rest, ...(fleet_id === null ? {} : { fleet_id }), ...(site_id === null ? {} : { site_id }) };
}

/** Returns the object whose site and fleet must be looked up. Undefined if they are known or not needed. */
function unknownOf({ change, found }: PlacedChange): { of: PlacedKind; id: string } | undefined {
  const audience = AUDIENCE[change.kind];
  if (typeof audience === "string") return undefined;
  // Look up a site for each set of readers. A site is visible to users who see one of its fleets, so the result depends on the readers.
  if (found !== undefined && (audience.of !== "site" || change.places !== undefined)) return undefined;
  const id = audience.by === "id" ? change.id : change.robot_id;
  return id === undefined ? undefined : { of: audience.of, id };
}

/** Adds the places (site and fleet) that the publisher passed with a change, if any. */
export const placedByPublisher = (change: AnnouncedChange): PlacedChange =>
  change.places === undefined ? { change } : { change, found: change.places.map((place) => ({ place, shared: false, fleets: [] })) };

/**
 * Looks up missing sites and fleets of changed objects and stores them in `changes`, with one statement for each kind of object. `callers`
 * are the readers that are limited to sites or fleets. Rejects if the database fails.
 */
export async function place(
  find: FindPlaces,
  db: Db,
  org_id: string,
  changes: readonly PlacedChange[],
  callers: readonly Caller[],
): Promise<void> {
  const unknown = changes.flatMap((one) => {
    const object = unknownOf(one);
    return object === undefined ? [] : [{ one, ...object }];
  });
  const fleets = [...new Set(callers.flatMap(namedFleets))];
  for (const [of, own] of Map.groupBy(unknown, (one) => one.of)) {
    const known = await find(db, org_id, of, [...new Set(own.map(({ id }) => id))], fleets);
    for (const { one, id } of own) {
      const found = known.get(id);
      one.found = found === undefined ? [] : [found];
    }
  }
}
