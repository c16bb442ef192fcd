import { createCredential } from "../../packages/server/src/features/tokens/index.ts";
import { json, sql } from "../../packages/server/src/kernel/sql.ts";
import type { Role } from "@roamfleet/protocol";
import type { Harness, HarnessOrg } from "../harness/index.ts";
import { makeThings, type Things } from "./sample-requests.ts";

type Scopes = { site_id?: string; fleet_id?: string }[];
type Grants = { role: Role; scopes: Scopes }[];

/** The objects of requests: one of each kind in two fleets of one site, in a fleet of another site, and in another org. */
export interface Ground {
  a: Things;
  /** Objects in another fleet of the same site. */
  sibling: Things;
  b: Things;
  foreign: Things;
}

export async function makeGround(plane: Harness): Promise<Ground> {
  const [org, other] = [await plane.org(), await plane.org()];
  const [site_a, site_b] = [await org.site(), await org.site()];
  const at = (site_id: string) => org.fleet({ site_id }).then((fleet_id) => makeThings(org, plane.clock.now(), fleet_id));
  const ground = {
    a: await at(site_a),
    sibling: await at(site_a),
    b: await at(site_b),
    foreign: await makeThings(other, plane.clock.now()),
  };
  for (const { org: owner, robot } of Object.values(ground)) {
    robot.log("ready");
    const query = { robot_id: robot.id };
    await plane.until("the robot's log", async () => (await owner.api.searchLogs({ query })).items.length === 1);
  }
  for (const { org: owner, robot } of [ground.a, ground.b]) {
    const health = `/api/robots/${robot.id}/health`;
    await plane.until("the robot's health", async () => (await owner.api.request("GET", health)).status === 200);
  }
  return ground;
}

/** A caller with a role, and the objects of its requests. */
export interface Column {
  name: string;
  token: string;
  /** Objects that the tested field names. */
  from: Things;
  /** Objects that the caller may access. All other fields of a request name these. */
  base: Things;
  /** The caller's role on objects in the fleet of `from`, on its site, and on the whole org. Undefined: no role. */
  on: { object: Role | undefined; site: Role | undefined; whole: Role | undefined };
  /** Objects in the caller's lists. */
  sees: readonly Things[];
}

export const COLUMNS = 11;

/** Returns callers of a role with every kind of scope, each with objects inside and outside of it. */
export async function columns(plane: Harness, { a, sibling, b, foreign }: Ground, role: Role): Promise<Column[]> {
  const { org } = a;
  const site: Scopes = [{ site_id: a.ids.site_id ?? "" }];
  const on_site = await org.token({ role, scopes: site });
  const on_fleet = await org.token({ role, scopes: [{ fleet_id: a.ids.fleet_id ?? "" }] });
  const limited = await userToken(plane, org, [{ role, scopes: [] }], role, site);
  const more: Grants = role === "viewer" ? [] : [{ role, scopes: site }];
  const partly = await userToken(plane, org, [{ role: "viewer", scopes: [] }, ...more], role, []);
  const all = [a, sibling, b];
  const inside = { object: role, site: role, whole: undefined };
  const outside = { object: undefined, site: undefined, whole: undefined };
  const viewer = "viewer" as const;
  return [
    {
      name: "in the whole org",
      token: await org.token({ role }),
      from: a,
      base: a,
      on: { object: role, site: role, whole: role },
      sees: all,
    },
    { name: "on a site, inside", token: on_site, from: a, base: a, on: inside, sees: [a, sibling] },
    { name: "on a site, outside", token: on_site, from: b, base: a, on: outside, sees: [a, sibling] },
    { name: "on a fleet, inside", token: on_fleet, from: a, base: a, on: { ...inside, site: viewer }, sees: [a] },
    { name: "on a fleet, the next one", token: on_fleet, from: sibling, base: a, on: { ...outside, site: viewer }, sees: [a] },
    { name: "on a fleet, outside", token: on_fleet, from: b, base: a, on: outside, sees: [a] },
    { name: "by a token limited to a site, inside", token: limited, from: a, base: a, on: inside, sees: [a, sibling] },
    { name: "by a token limited to a site, outside", token: limited, from: b, base: a, on: outside, sees: [a, sibling] },
    { name: "on a site and viewer elsewhere, inside", token: partly, from: a, base: a, on: { ...inside, whole: viewer }, sees: all },
    {
      name: "on a site and viewer elsewhere, outside",
      token: partly,
      from: b,
      base: a,
      on: { object: viewer, site: viewer, whole: viewer },
      sees: all,
    },
    { name: "in another org", token: await foreign.org.token({ role }), from: a, base: foreign, on: { ...outside, whole: role }, sees: [] },
  ];
}

let users = 0;

/** Creates a user of the org with these roles; returns a token of the user. */
export async function userToken(plane: Harness, org: HarnessOrg, grants: Grants, role: Role, scopes: Scopes): Promise<string> {
  const user_id = `usr_${String((users += 1)).padStart(26, "0")}`;
  const now = plane.clock.now();
  await plane.db.run(sql`
    insert into user_account (id, email, name, created_at, updated_at) values (${user_id}, ${`${user_id}@example.org`}, 'Ada', ${now}, ${now})`);
  for (const grant of grants) {
    await plane.db.run(sql`
      insert into membership (org_id, user_id, role, scopes, created_at, updated_at)
      values (${org.id}, ${user_id}, ${grant.role}, ${json(grant.scopes)}, ${now}, ${now})`);
  }
  return (await createCredential(plane.db, plane.plane, { kind: "user", org_id: org.id, user_id, role, scopes })).secret;
}
