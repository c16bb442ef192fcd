import type { Role } from "@roamfleet/protocol";
import type { Scopes } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, jsonb, list, row, sql, text, textOf } from "../../kernel/sql.ts";

const membershipRow = row({ user_id: text, role: textOf<Role>(), scopes: jsonb<Scopes>() });

/** Returns the grants of these users in the org. The lock conflicts with a removal or demotion. */
export const shareMemberships = (tx: Db, org_id: string, user_ids: readonly string[]) =>
  // reads: membership
  tx.many(sql(membershipRow)`
    select user_id, role, scopes from membership where org_id = ${org_id} and user_id = any(${list(user_ids)}::text[])
    order by user_id, role for key share`);

const credentialRow = row({ id: text, role: textOf<Role>(), scopes: jsonb<Scopes>(), revoked: bool });

/** Returns these tokens of the org. The lock conflicts with a revocation, but not with an update of `last_used_at`. */
export const shareCredentials = (tx: Db, org_id: string, ids: readonly string[]) =>
  // reads: credential
  tx.many(sql(credentialRow)`
    select id, role, scopes, revoked_at is not null as revoked from credential where org_id = ${org_id} and id = any(${list(ids)}::text[])
    order by id for key share`);
