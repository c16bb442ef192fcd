import { routes, type Me } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { getCredential, listOrgOfToken, listOrgsOfUser } from "./store.ts";

export function tokenRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getMe, async (_, { caller, db }) => ({ data: await describe(db, caller) }));
}

/** Outside of these the token sees nothing of sites, fleets and robots; empty is the whole org. */
function scopesShown({ grants, limit }: Caller): Me["scopes"] {
  if (limit.length > 0) return [...limit];
  return grants.some(({ scopes }) => scopes.length === 0) ? [] : grants.flatMap(({ scopes }) => scopes);
}

async function describe(db: Db, caller: Caller): Promise<Me> {
  const credential = await getCredential(db, caller.token_id);
  const known = credential.user_id === null ? await listOrgOfToken(db, credential.org_id) : await listOrgsOfUser(db, credential.user_id);
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
