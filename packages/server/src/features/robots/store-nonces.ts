import type { Db, SystemDb } from "../../kernel/db.ts";
import { int, row, sql } from "../../kernel/sql.ts";

/** Signed requests of one robot within the time that their nonces are kept. */
export const NONCES_MAX = 5_000;

interface UsedNonce {
  org_id: string;
  robot_id: string;
  nonce: string;
}

/**
 * Stores the nonce of a signed request, unless it was used before, on whichever node, or the robot has used NONCES_MAX.
 * It is kept for twice the time in which the request's own time is accepted, by the database's clock: nodes' clocks differ.
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

/** Deletes what has expired, of all orgs. Returns how many. */
export const deleteUsedNonces = (db: SystemDb): Promise<number> =>
  db.run(sql`delete from robot_request /* every org_id */ where expires_at < now()`);
