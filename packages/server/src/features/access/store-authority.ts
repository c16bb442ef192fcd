import type { Role } from "@roamfleet/protocol";
import type { Scopes } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, jsonb, list, row, sql, text, textOf } from "../../kernel/sql.ts";

const membershipRow = row({ user_id: text, role: textOf<Role>(), scopes: jsonb<Scopes>() });

/** Grants of these users in the org. The lock waits for a removal or demotion under way, and holds the next one off. */
export const shareMemberships = (tx: Db, org_id: string, user_ids: readonly string[]) =>
  // reads: membership
  tx.many(sql(membershipRow)`
    select user_id, role, scopes from membership where org_id = ${org_id} and user_id = any(${list(user_ids)}::text[])
    order by user_id, role for key share`);

const credentialRow = row({ id: text, role: textOf<Role>(), scopes: jsonb<Scopes>(), revoked: bool });

/** These tokens of the org. The lock conflicts with a revocation, not with the note of when a token was used last. */
export const shareCredentials = (tx: Db, org_id: string, ids: readonly string[]) =>
  // reads: credential
  tx.many(sql(credentialRow)`
    select id, role, scopes, revoked_at is not null as revoked from credential where org_id = ${org_id} and id = any(${list(ids)}::text[])
    order by id for key share`);
