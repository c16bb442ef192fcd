import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { forbidden } from "../../kernel/fault.ts";
import { readAuthorities } from "../access/index.ts";
import type { KeyRow } from "./store.ts";

/**
 * 403 unless the maker of the key may still enroll robots at the place, which stays so until the transaction ends. Returns
 * whether robots that enroll by it get secrets: the key is trusted, and its maker still administers the whole org.
 */
export async function requireAuthority(tx: Db, key: KeyRow, place: Place): Promise<{ trusted: boolean }> {
  const authorities = await readAuthorities(tx, key.org_id, [key]);
  const denial = authorities.denialAt(key, place);
  if (denial === "creator_removed")
    throw forbidden("the enrolment key is revoked: its maker left the org, or the maker's token was revoked");
  if (denial !== null) throw forbidden("the maker of the enrolment key may no longer enroll robots into its fleet");
  return { trusted: key.trusted && authorities.isOrgAdmin(key) };
}
