import { routes, type Me } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { noteAuthorityChange } from "../deployments/index.ts";
import { revokeKeysOf } from "../enrollment/index.ts";
import { announce } from "../events/index.ts";
import { issueToken, requireMember, rotate } from "./issue.ts";
import { findToken, listTokens, revokeToken, type TokenRow } from "./store-manage.ts";
import { getCredential, listOrgOfToken, listOrgsOfUser } from "./store.ts";
import { toWire } from "./wire.ts";

export function tokenRoutes(http: Http, plane: Plane): void {
  // A token may belong to another org than the present one, or to several orgs.
  serve(http, plane, routes.getMe, async (_, { caller }) => ({ data: await describe(plane.db, caller) }));

  serve(http, plane, routes.listTokens, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.user_id !== undefined) await requireMember(db, org_id, query.user_id);
    const now = plane.clock.now();
    return readPage(
      query,
      [routes.listTokens.name, org_id],
      (window) => listTokens(db, org_id, query, now, window),
      ({ id }) => id,
      (token) => toWire(token, now),
    );
  });

  serve(http, plane, routes.createToken, async (_, { body, caller, db }) =>
    created(routes.createToken.path, { data: await issueToken(plane, db, caller, body) }),
  );

  serve(http, plane, routes.getToken, async (_, { params, caller, db }) => ({
    data: toWire(found(await findToken(db, caller.org_id, params.id), params.id), plane.clock.now()),
  }));

  serve(http, plane, routes.revokeToken, async (_, { params, caller, db }) => {
    const now = plane.clock.now();
    return { data: toWire(await revoke(plane, db, caller.org_id, params.id, now), now) };
  });

  serve(http, plane, routes.rotateToken, async (_, { params, body, caller, db }) => ({
    data: await rotate(plane, db, caller.org_id, params.id, body.overlap_seconds ?? 0),
  }));
}

/** Revokes a token and the enrollment keys that it created. Pending work on its authority is cancelled soon after. */
function revoke(plane: Plane, db: Db, org_id: string, id: string, now: Date): Promise<TokenRow> {
  return db.transaction(async (tx) => {
    // Lock keys before the token, in the same order as an enrollment.
    const keys = await revokeKeysOf(tx, org_id, { token_id: id }, now);
    const token = found(await revokeToken(tx, org_id, id, now), id);
    if (token.revoked_at?.getTime() !== now.getTime()) return token;
    await noteAuthorityChange(tx, plane, org_id, "token", [id]);
    announce(tx, plane, org_id, [
      { kind: "token", id, change: "updated" },
      ...keys.map((key) => ({ kind: "enrollment_key" as const, id: key.id, change: "updated", fleet_id: key.fleet_id })),
    ]);
    return token;
  });
}

function found(token: TokenRow | undefined, id: string): TokenRow {
  if (token === undefined) throw notFound("token", id);
  return token;
}

/** Returns the scopes to which sites, fleets and robots are limited; empty means the whole org. */
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
