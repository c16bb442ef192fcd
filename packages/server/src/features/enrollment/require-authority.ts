import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { forbidden } from "../../kernel/fault.ts";
import { readAuthorities } from "../access/index.ts";
import type { KeyRow } from "./store.ts";

/**
 * Throws 403 unless the creator of the key may still enroll robots at the place; this stays so until the transaction ends. Returns whether
 * robots that enroll with it get secrets: the key is trusted, and its creator is still an admin of the whole org.
 */
export async function requireAuthority(tx: Db, key: KeyRow, place: Place): Promise<{ trusted: boolean }> {
  const authorities = await readAuthorities(tx, key.org_id, [key]);
  const denial = authorities.denialAt(key, place);
  if (denial === "creator_removed")
    throw forbidden("the enrollment key is revoked: its creator left the org, or the creator's token was revoked");
  if (denial !== null) throw forbidden("the creator of the enrollment key may no longer enroll robots into its fleet");
  return { trusted: key.trusted && authorities.isOrgAdmin(key) };
}
