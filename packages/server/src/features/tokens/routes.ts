import { roleAtLeast } from "@roamfleet/protocol";
import { type BodyOf, type Me, type NewToken, routes, type Routes, type Token } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, highestRole } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, forbidden, found, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { noteAuthorityChange } from "../deployments/index.ts";
import { revokeKeysOf } from "../enrollment/index.ts";
import { announce } from "../events/index.ts";
import { deleteViewsOf } from "../views/index.ts";
import { checkScopes, createCredential, newSecret } from "./create.ts";
import {
  findToken,
  getCredential,
  listOrgOfToken,
  listOrgsOfUser,
  listTokens,
  lockToken,
  revokeToken,
  rotateToken,
  type TokenRow,
  type TokenStatus,
} from "./store.ts";

export function tokenRoutes(http: Http, plane: Plane): void {
  // Use the database without restriction to the caller's org, because the caller's token may belong to another org or to several.
  serve(http, plane, routes.getMe, async (_, { caller }) => ({ data: await describe(plane.db, caller) }));

  serve(http, plane, routes.listTokens, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.user_id !== undefined) await requireMember(db, org_id, query.user_id);
    const now = plane.clock.now();
    const wire = (token: TokenRow): Token => toWire(token, now);
    return readPage(query, [routes.listTokens.name, org_id], (window) => listTokens(db, org_id, query, now, window), wire);
  });

  serve(http, plane, routes.createToken, async (_, { body, caller, db }) =>
    created(routes.createToken.path, { data: await issueToken(plane, db, caller, body) }),
  );

  serve(http, plane, routes.getToken, async (_, { params, caller, db }) => ({
    data: toWire(found(await findToken(db, caller.org_id, params.id), "token", params.id), plane.clock.now()),
  }));

  serve(http, plane, routes.revokeToken, async (_, { params, caller, db }) => {
    const now = plane.clock.now();
    return { data: toWire(await revoke(plane, db, caller.org_id, params.id, now), now) };
  });

  serve(http, plane, routes.rotateToken, async (_, { params, body, caller, db }) => ({
    data: await rotate(plane, db, caller.org_id, params.id, body.overlap_seconds ?? 0),
  }));
}

/**
 * Revokes a token and the enrollment keys that it created, and deletes its views that are not shared. Pending work that runs with the
 * token's permissions is cancelled soon after.
 */
function revoke(plane: Plane, db: Db, org_id: string, id: string, now: Date): Promise<TokenRow> {
  return db.transaction(async (tx) => {
    // Lock the enrollment keys before the token. An enrollment takes the locks in the same order, which prevents deadlocks.
    const keys = await revokeKeysOf(tx, org_id, { token_id: id }, now);
    const token = found(await revokeToken(tx, org_id, id, now), "token", id);
    if (token.revoked_at?.getTime() !== now.getTime()) return token;
    await noteAuthorityChange(tx, plane, org_id, "token", [id]);
    await deleteViewsOf(tx, org_id, id);
    announce(tx, plane, org_id, [
      { kind: "token", id, change: "updated" },
      ...keys.map((key) => ({ kind: "enrollment_key" as const, id: key.id, change: "updated", fleet_id: key.fleet_id })),
    ]);
    return token;
  });
}

/** Returns the scopes (sites and fleets) to which the caller is limited. An empty list means the whole org. */
function scopesShown({ grants, limit }: Caller): Me["scopes"] {
  if (limit.length > 0) return [...limit];
  return grants.some(({ scopes }) => scopes.length === 0) ? [] : grants.flatMap(({ scopes }) => scopes);
}

async function describe(db: Db, caller: Caller): Promise<Me> {
  const credential = await getCredential(db, caller.token_id);
  const known =
    credential.user_id === null ? await listOrgOfToken(db, credential.org_id) : await listOrgsOfUser(db, credential.user_id, null);
  const names = new Map(known.map(({ org_id, name }) => [org_id, name]));
  const name = (org_id: string): string => names.get(org_id) ?? org_id;
  const { type, id } = caller.actor;
  return {
    actor: { type: type === "user" ? "user" : "org_token", id: id ?? caller.token_id, name: caller.actor.name },
    token: { id: credential.id, label: credential.label, prefix: credential.prefix, expires_at: wireTime(credential.expires_at) },
    org: { id: caller.org_id, name: name(caller.org_id), role: caller.role },
    orgs: caller.orgs.map(({ org_id, role, is_default }) => ({ id: org_id, name: name(org_id), role, default: is_default })),
    scopes: scopesShown(caller),
  };
}

const HOUR_MS = 3_600_000;

/** Returns the highest role of a user in the org. Throws 404 if the user is not a member. */
async function requireMember(db: Db, org_id: string, user_id: string): Promise<NonNullable<ReturnType<typeof highestRole>>> {
  const role = highestRole((await listOrgsOfUser(db, user_id, org_id)).flatMap((grant) => grant.role ?? []));
  if (role === undefined) throw notFound("user", user_id);
  return role;
}

/**
 * Creates a token of the org or of one of its users. Only this response contains the secret. A user's token is also valid for this org
 * only: otherwise an admin of this org could use it to access other orgs of the user.
 */
async function issueToken(plane: Plane, db: Db, caller: Caller, body: BodyOf<Routes["createToken"]>): Promise<NewToken> {
  const { org_id } = caller;
  const { label, role, scopes = [], expires_in_hours = 0, user_id } = body;
  if (!roleAtLeast(caller.role, role)) throw forbidden(`field role: a token cannot have a higher role than its creator, ${caller.role}`);
  return await db.transaction(async (tx) => {
    const of_user = user_id === undefined ? undefined : await requireMember(tx, org_id, user_id);
    if (of_user !== undefined && !roleAtLeast(of_user, role))
      throw badRequest(`field role: user ${user_id} has the role ${of_user}, less than ${role}`);
    const { id, secret } = await createCredential(tx, plane, {
      kind: user_id === undefined ? "org" : "user",
      org_id,
      ...(user_id === undefined ? {} : { user_id }),
      role,
      scopes: await checkScopes(tx, org_id, scopes),
      label,
      ...(expires_in_hours === 0 ? {} : { expires_at: new Date(plane.clock.now().getTime() + expires_in_hours * HOUR_MS) }),
      created_by: caller.actor,
    });
    const token = found(await findToken(tx, org_id, id), "token", id);
    announce(tx, plane, org_id, { kind: "token", id, change: "created" });
    return { ...toWire(token, plane.clock.now()), token: secret };
  });
}

/** Replaces the secret of a token. Only this response contains the new secret. The old secret stays valid for `overlap_seconds`. */
async function rotate(plane: Plane, db: Db, org_id: string, id: string, overlap_seconds: number): Promise<NewToken> {
  return await db.transaction(async (tx) => {
    const now = plane.clock.now();
    const token = found(await lockToken(tx, org_id, id), "token", id);
    const status = statusOf(token, now);
    if (status !== "active") throw conflict(`token ${id} is ${status}; create another one`);
    const { secret, hash, prefix } = newSecret(token.kind);
    const previous_until = new Date(now.getTime() + overlap_seconds * 1_000);
    announce(tx, plane, org_id, { kind: "token", id, change: "updated" });
    return { ...toWire(await rotateToken(tx, org_id, id, { hash, prefix, previous_until, at: now }), now), token: secret };
  });
}

/** Returns the status of a token. A revoked token that has also expired is `revoked`. */
function statusOf({ revoked_at, expires_at }: Pick<TokenRow, "revoked_at" | "expires_at">, now: Date): TokenStatus {
  if (revoked_at !== null) return "revoked";
  return expires_at !== null && expires_at <= now ? "expired" : "active";
}

const toWire = (token: TokenRow, now: Date): Token => ({
  id: token.id,
  label: token.label,
  role: token.role,
  scopes: [...token.scopes],
  prefix: token.prefix,
  user_id: token.user_id,
  status: statusOf(token, now),
  expires_at: wireTime(token.expires_at),
  last_used_at: wireTime(token.last_used_at),
  revoked_at: wireTime(token.revoked_at),
  created_by: token.created_by,
  created_at: wireTime(token.created_at),
  updated_at: wireTime(token.updated_at),
});
