import type { AuditEntry } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import type { Orphan } from "../../kernel/close-event-writer.ts";
import type { HashedProof } from "../../kernel/caller.ts";
import { bigint, bytea, int, json, jsonb, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

/** The fields that the two audit entries of a stream (opened and closed) have in common. */
export type StreamEntry = Omit<AuditEntry, "action" | "status">;

const openRow = row({ org_id: text, id: text, entry: jsonb<StreamEntry>(), opened_at: timestamptz });
/** An open stream of a viewer. */
export type OpenStream = RowOf<typeof openRow>;

interface NodeRun {
  id: string;
  epoch: number;
}

export const insertOpenStream = (db: Db, { org_id, id, entry, opened_at }: OpenStream, node: NodeRun): Promise<number> =>
  db.run(sql`
    insert into open_stream (org_id, id, node_id, node_epoch, entry, opened_at)
    values (${org_id}, ${id}, ${node.id}, ${node.epoch}, ${json(entry)}, ${opened_at})`);

/** Deletes the row of an open stream. Returns 0 if the end of the stream was already written. */
export const deleteOpenStream = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from open_stream where org_id = ${org_id} and id = ${id}`);

/** Returns the open streams of dead nodes, ordered by org and id. */
export const listOrphans = (db: Db, self: NodeRun, { after, limit }: { after: Orphan; limit: number }): Promise<OpenStream[]> =>
  // reads tables of other features: node
  db.many(sql(openRow)`
    -- across orgs: any node writes their ends
    select ${openRow} from open_stream s
    where not (node_id = ${self.id} and node_epoch = ${self.epoch})
      and not exists (select from node n where n.id = s.node_id and n.epoch = s.node_epoch and not n.is_over)
      and (org_id, id) > (${after.org_id}, ${after.id})
    order by org_id, id limit ${limit}`);

const presenceRow = row({ node_id: nullable(text), node_epoch: nullable(bigint) });

/** Returns the id and epoch of the node that a robot is connected to; undefined if it is offline. */
export async function nodeOfRobot(db: Db, org_id: string, robot_id: string): Promise<{ node_id: string; node_epoch: number } | undefined> {
  // reads tables of other features: robot
  const at = await db.maybe(sql(presenceRow)`select ${presenceRow} from robot where org_id = ${org_id} and id = ${robot_id}`);
  const { node_id = null, node_epoch = null } = at ?? {};
  return node_id === null || node_epoch === null ? undefined : { node_id, node_epoch };
}

const ticketRow = row({
  org_id: text,
  proof_by: textOf<HashedProof["by"]>(),
  proof_hash: bytea,
  stream: text,
  object_id: text,
  uses: int,
  expires_at: timestamptz,
});
type TicketRow = RowOf<typeof ticketRow>;

export const insertTicket = (db: Db, t: Omit<TicketRow, "uses"> & { hash: Buffer; created_at: Date }): Promise<number> =>
  db.run(sql`
    insert into stream_ticket (org_id, hash, proof_by, proof_hash, stream, object_id, uses, expires_at, created_at)
    values (${t.org_id}, ${t.hash}, ${t.proof_by}, ${t.proof_hash}, ${t.stream}, ${t.object_id}, 0, ${t.expires_at}, ${t.created_at})`);

/** Finds a ticket by the hash of its secret, and counts this use of it. Of concurrent requests, exactly one gets a result with `uses` 1. */
export const useTicket = (db: Db, hash: Buffer): Promise<TicketRow | undefined> =>
  db.maybe(sql(ticketRow)`update stream_ticket set uses = uses + 1 where hash = ${hash} returning ${ticketRow}`);

export const deleteExpiredTickets = (db: Db, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from stream_ticket where ctid = any(array(
      select ctid from stream_ticket where expires_at < ${before} order by expires_at, ctid limit ${limit} offset ${offset}))`);
