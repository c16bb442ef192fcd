import type { ChangeKind } from "@roamfleet/protocol/routes";
import type { FindPlaces, Found, PlacedKind } from "../../kernel/authorize.ts";
import { roleOnFound } from "../../kernel/authorize.ts";
import { type Caller, mayInWholeOrg, namedFleets, seesWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { AnnouncedChange } from "./announce.ts";

/** Who may know of a change: each member of the org, those who administer all of it, or who sees the object that it is of. */
type Audience = "members" | "admins" | { of: PlacedKind; by: "id" | "robot_id" };

const OF_ROBOT = { of: "robot", by: "robot_id" } as const;

/** As the lists of these are, in the table of who may do what. A new kind does not compile without its line. */
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
  user: "admins",
  token: "admins",
  org: "members",
  signing_keys: "admins",
};

/** A change with where it was found to be: what is decided by, for readers limited to places. */
export interface PlacedChange {
  change: AnnouncedChange;
  /** Undefined: nobody looked. Empty: nowhere that anybody limited to places reaches. */
  found?: readonly Found[];
}

/** Whether somebody's role is limited to places, so that what they see has to be looked up. */
export const isLimited = (caller: Caller): boolean => !seesWholeOrg(caller);

/** The part of a change that the caller may see: all of it, without where it came from or went, or nothing. */
export function seenBy(caller: Caller, { change, found = [] }: PlacedChange): AnnouncedChange | undefined {
  const audience = AUDIENCE[change.kind];
  if (audience === "members") return change;
  if (audience === "admins") return mayInWholeOrg(caller, "admin") ? change : undefined;
  if (seesWholeOrg(caller)) return change;
  const seen = found.filter((one) => roleOnFound(caller, one) !== undefined);
  if (seen.length === found.length) return found.length === 0 ? undefined : change;
  const [first] = seen;
  if (first === undefined) return undefined;
  // It was moved over the edge of what they see: of the other side they are told nothing.
  const { from_fleet_id: _fleet, from_site_id: _site, ...rest } = change;
  const { fleet_id, site_id } = first.place;
  return { ...rest, ...(fleet_id === null ? {} : { fleet_id }), ...(site_id === null ? {} : { site_id }) };
}

/** What is to be looked up of a change; undefined when it is known or does not matter. */
function unknownOf({ change, found }: PlacedChange): { of: PlacedKind; id: string } | undefined {
  const audience = AUDIENCE[change.kind];
  if (typeof audience === "string") return undefined;
  // A site is seen by whoever sees one of its fleets, so that the answer depends on who asks.
  if (found !== undefined && (audience.of !== "site" || change.places !== undefined)) return undefined;
  const id = audience.by === "id" ? change.id : change.robot_id;
  return id === undefined ? undefined : { of: audience.of, id };
}

/** With the places that whoever announced it gave along. */
export const placedAsTold = (change: AnnouncedChange): PlacedChange =>
  change.places === undefined ? { change } : { change, found: change.places.map((place) => ({ place, shared: false, fleets: [] })) };

/** Looks up where changes are, in one statement for each kind of object, for callers limited to places. Rejects with the database. */
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
