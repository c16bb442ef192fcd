import { ID_PREFIXES, ROLES } from "@roamfleet/protocol";
import { type BodyOf, type RemovedUser, routes, type Routes, type User } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Changed, changesBetween } from "../../kernel/audit.ts";
import { type Grant, highestRole } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { noteAuthorityChange } from "../deployments/index.ts";
import { revokeKeysOf } from "../enrollment/index.ts";
import { announce } from "../events/index.ts";
import { checkScopes, hasAdminToken, revokeTokensOfUser } from "../tokens/index.ts";
import { deleteViewsOf } from "../views/index.ts";
import {
  addAccount,
  dropGrantsExcept,
  findUser,
  hasAdminUser,
  listHoldings,
  listUsers,
  lockGrants,
  lockMembers,
  renameMember,
  setGrant,
  type UserRow,
} from "./store.ts";

export function userRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listUsers, (_, { query, caller, db }) =>
    readPage(query, [routes.listUsers.name, caller.org_id], (window) => listUsers(db, caller.org_id, query, window), toWire),
  );

  serve(http, plane, routes.createUser, async (_, { body, caller, db }) => {
    const { is_new, user } = await addUser(plane, db, caller.org_id, body);
    return is_new ? created(routes.createUser.path, { data: user }) : new Answer(200, { data: user });
  });

  serve(http, plane, routes.getUser, async (_, { params, caller, db }) => ({ data: toWire(await readUser(db, caller.org_id, params.id)) }));

  serve(http, plane, routes.updateUser, async (_, { params, body, caller, db, audit }) => {
    const { before, after } = await changeUser(plane, db, caller.org_id, params.id, body);
    audit.data = changesBetween(before, after, ["name", "grants"]);
    return { data: after };
  });

  serve(http, plane, routes.listUserHoldings, async (_, { params, caller, db }) => {
    const { id } = await readUser(db, caller.org_id, params.id);
    return { items: await listHoldings(db, caller.org_id, id, plane.clock.now()), next_cursor: null };
  });

  serve(http, plane, routes.deleteUser, async (_, { params, caller, db }) => ({
    data: await removeUser(plane, db, caller.org_id, params.id),
  }));
}

/** Adds a user to the org by email address, or gives an existing member a further role. `is_new` is false for an existing member. */
async function addUser(plane: Plane, db: Db, org_id: string, body: BodyOf<Routes["createUser"]>): Promise<{ is_new: boolean; user: User }> {
  const at = plane.clock.now();
  return await db.transaction(async (tx) => {
    await lockMembers(tx, org_id);
    const scopes = await checkScopes(tx, org_id, body.scopes ?? []);
    const id = await addAccount(tx, { id: plane.id(ID_PREFIXES.user), email: addressOf(body.email), at });
    const before = await findUser(tx, org_id, id);
    await lockGrants(tx, org_id, id);
    // A member that gets a further grant keeps its present name.
    await setGrant(tx, org_id, id, { role: body.role, scopes }, before?.name ?? body.name, at);
    const user = await readUser(tx, org_id, id);
    if (before !== undefined) {
      await keepAnAdmin(plane, tx, org_id, before, user.grants);
      await noteAuthorityChange(tx, plane, org_id, "user", [id]);
    }
    announce(tx, plane, org_id, { kind: "user", id, change: before === undefined ? "created" : "updated" });
    return { is_new: before === undefined, user: toWire(user) };
  });
}

/** Changes the name or the grants of a user. Throws 409 if the org would have no admin left. */
async function changeUser(plane: Plane, db: Db, org_id: string, id: string, body: BodyOf<Routes["updateUser"]>): Promise<Changed<User>> {
  const at = plane.clock.now();
  return await db.transaction(async (tx) => {
    await lockMembers(tx, org_id);
    const user = await readUser(tx, org_id, id);
    const grants = await checkGrants(tx, org_id, body, user);
    if (grants !== undefined) {
      await lockGrants(tx, org_id, id);
      const roles = grants.map(({ role }) => role);
      await dropGrantsExcept(tx, org_id, id, roles);
      for (const grant of grants) await setGrant(tx, org_id, id, grant, user.name, at);
      await keepAnAdmin(plane, tx, org_id, user, grants);
      await noteAuthorityChange(tx, plane, org_id, "user", [id]);
    }
    // Rename the user after replacing the grants, because the new grants were inserted with the old name.
    if (body.name !== undefined && body.name !== user.name) await renameMember(tx, org_id, id, body.name, at);
    announce(tx, plane, org_id, { kind: "user", id, change: "updated" });
    return { before: toWire(user), after: toWire(await readUser(tx, org_id, id)) };
  });
}

/**
 * Removes a user from the org. Revokes the user's tokens for this org and the enrollment keys that the user created, and deletes the user's
 * views that are not shared. Returns the user, and the objects that the removal affected.
 */
async function removeUser(plane: Plane, db: Db, org_id: string, id: string): Promise<RemovedUser> {
  return await db.transaction(async (tx) => {
    await lockMembers(tx, org_id);
    const user = await readUser(tx, org_id, id);
    const holdings = await listHoldings(tx, org_id, id, plane.clock.now());
    // Lock the enrollment keys before the memberships. An enrollment takes the locks in the same order, which prevents deadlocks.
    const keys = await revokeKeysOf(tx, org_id, { user_id: id }, plane.clock.now());
    await dropGrantsExcept(tx, org_id, id, []);
    await keepAnAdmin(plane, tx, org_id, user, []);
    const revoked = await revokeTokensOfUser(tx, org_id, id, plane.clock.now());
    await deleteViewsOf(tx, org_id, id);
    await noteAuthorityChange(tx, plane, org_id, "user", [id]);
    announce(tx, plane, org_id, [
      { kind: "user", id, change: "removed" },
      ...revoked.map((token) => ({ kind: "token" as const, id: token.id, change: "updated" })),
      ...keys.map((key) => ({ kind: "enrollment_key" as const, id: key.id, change: "updated", fleet_id: key.fleet_id })),
    ]);
    return { ...toWire(user), holdings };
  });
}

const readUser = async (db: Db, org_id: string, id: string): Promise<UserRow> => found(await findUser(db, org_id, id), "user", id);

const addressOf = (email: string): string => email.normalize("NFC").toLowerCase();

/** Returns the grants that the user has after the change. Returns undefined if the body does not change them. */
async function checkGrants(
  tx: Db,
  org_id: string,
  { role, scopes, grants }: BodyOf<Routes["updateUser"]>,
  user: UserRow,
): Promise<Grant[] | undefined> {
  if (grants !== undefined) {
    if (role !== undefined || scopes !== undefined)
      throw badRequest("field grants replaces role and scopes; send either grants, or role and scopes");
    const seen = new Set<string>();
    for (const [i, grant] of grants.entries()) {
      if (seen.has(grant.role)) throw badRequest(`field grants.${i}.role: ${grant.role} is a duplicate; put all its scopes into one grant`);
      seen.add(grant.role);
    }
    const checked: Grant[] = [];
    for (const [i, grant] of grants.entries())
      checked.push({ role: grant.role, scopes: await checkScopes(tx, org_id, grant.scopes, `grants.${i}.scopes`) });
    return checked;
  }
  if (role === undefined && scopes === undefined) return undefined;
  const [only, ...more] = user.grants;
  if (only === undefined || more.length > 0)
    throw badRequest(`field grants is needed: user ${user.id} has several roles; send all of them`);
  return [{ role: role ?? only.role, scopes: scopes === undefined ? only.scopes : await checkScopes(tx, org_id, scopes) }];
}

const administers = (grants: readonly Grant[]): boolean => grants.some(({ role, scopes }) => role === "admin" && scopes.length === 0);

/** Throws 409 if the org has no admin left after this user's grants were changed. */
async function keepAnAdmin(plane: Plane, tx: Db, org_id: string, before: UserRow, now: readonly Grant[]): Promise<void> {
  if (!administers(before.grants) || administers(now)) return;
  if ((await hasAdminUser(tx, org_id)) || (await hasAdminToken(tx, org_id, plane.clock.now()))) return;
  throw conflict(`user ${before.id} is the last admin of the org; first add another admin or create a token with the role admin`);
}

const toWire = (user: UserRow): User => ({
  id: user.id,
  email: user.email,
  name: user.name,
  role: highestRole(user.grants.map(({ role }) => role)) ?? ROLES[0],
  grants: user.grants
    .toSorted((a, b) => ROLES.indexOf(b.role) - ROLES.indexOf(a.role))
    .map(({ role, scopes }) => ({ role, scopes: [...scopes] })),
  last_seen_at: wireTime(user.last_seen_at),
  created_at: wireTime(user.created_at),
  updated_at: wireTime(user.updated_at),
});
