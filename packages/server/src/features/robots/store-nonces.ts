import type { Db, SystemDb } from "../../kernel/db.ts";
import { int, row, sql } from "../../kernel/sql.ts";

/** Maximum signed requests of one robot while their nonces are kept. */
export const NONCES_MAX = 5_000;

interface UsedNonce {
  org_id: string;
  robot_id: string;
  nonce: string;
}

/**
 * Stores the nonce of a signed request, unless it was already used on any node or the robot has used NONCES_MAX. Kept for twice the time in
 * which the request's timestamp is accepted, by the database's clock, because the clocks of nodes differ.
 */
export async function useNonce(db: Db, { org_id, robot_id, nonce }: UsedNonce): Promise<"stored" | "used_before" | "too_many"> {
  const stored = await db.run(sql`
    insert into robot_request (org_id, robot_id, nonce, expires_at)
    select ${org_id}, ${robot_id}, ${nonce}, now() + interval '10 minutes'
    where (select count(*) from (select 1 from robot_request where org_id = ${org_id} and robot_id = ${robot_id} limit ${NONCES_MAX}) as used)
      < ${NONCES_MAX}
    on conflict do nothing`);
  if (stored === 1) return "stored";
  const used = await db.one(sql(row({ nonces: int }))`
    select count(*)::int as nonces from (select 1 from robot_request where org_id = ${org_id} and robot_id = ${robot_id} limit ${NONCES_MAX}) as used`);
  return used.nonces < NONCES_MAX ? "used_before" : "too_many";
}

/** Deletes at most `limit` expired nonces of all orgs, after skipping `offset`. Returns how many. */
export const deleteUsedNonces = (db: SystemDb, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    -- across orgs: a sweep by time
    delete from robot_request where ctid = any(array(
      select ctid from robot_request where expires_at < now() order by expires_at, org_id, robot_id, nonce limit ${limit} offset ${offset}))`);
