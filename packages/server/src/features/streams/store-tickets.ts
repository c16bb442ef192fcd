import type { Db } from "../../kernel/db.ts";
import type { HeldProof } from "../../kernel/proof.ts";
import { bytea, int, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

const ticketRow = row({
  org_id: text,
  proof_by: textOf<HeldProof["by"]>(),
  proof_hash: bytea,
  stream: text,
  object_id: text,
  uses: int,
  expires_at: timestamptz,
});
export type TicketRow = RowOf<typeof ticketRow>;

export const insertTicket = (db: Db, t: Omit<TicketRow, "uses"> & { hash: Buffer; created_at: Date }): Promise<number> =>
  db.run(sql`
    insert into stream_ticket (org_id, hash, proof_by, proof_hash, stream, object_id, uses, expires_at, created_at)
    values (${t.org_id}, ${t.hash}, ${t.proof_by}, ${t.proof_hash}, ${t.stream}, ${t.object_id}, 0, ${t.expires_at}, ${t.created_at})`);

/** Finds a ticket before the org is known, and counts the use. Of concurrent requests, exactly one gets `uses` 1. */
export const useTicket = (db: Db, hash: Buffer): Promise<TicketRow | undefined> =>
  db.maybe(sql(ticketRow)`update stream_ticket set uses = uses + 1 where hash = ${hash} returning ${ticketRow}`);

export const deleteExpiredTickets = (db: Db, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from stream_ticket where ctid = any(array(
      select ctid from stream_ticket where expires_at < ${before} order by expires_at, ctid limit ${limit} offset ${offset}))`);
