import type { AuditEntry } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import type { Orphan } from "../../kernel/endings.ts";
import { bigint, json, jsonb, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

/** The common fields of both audit entries of a stream. */
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

/** Returns 0 if the end was written before. */
export const deleteOpenStream = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from open_stream where org_id = ${org_id} and id = ${id}`);

/** Returns the open streams of dead nodes, ordered by org and id. */
export const listOrphans = (db: Db, self: NodeRun, { after, limit }: { after: Orphan; limit: number }): Promise<OpenStream[]> =>
  // reads: node
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
  // reads: robot
  const at = await db.maybe(sql(presenceRow)`select ${presenceRow} from robot where org_id = ${org_id} and id = ${robot_id}`);
  const { node_id = null, node_epoch = null } = at ?? {};
  return node_id === null || node_epoch === null ? undefined : { node_id, node_epoch };
}
