import type { Db } from "../../kernel/db.ts";
import { bigint, row, type RowOf, sql, text } from "../../kernel/sql.ts";
import type { NodeRun } from "../lease.ts";

const nodeRow = row({ id: text, epoch: bigint, address: text, tls_fingerprint: text });
/** One run of a node that others can connect to. */
export type KnownNode = RowOf<typeof nodeRow>;

/** Those that live and listen for others. */
export const listNodes = (db: Db): Promise<KnownNode[]> =>
  db.many(sql(nodeRow)`
    select ${nodeRow} from node where not is_over and address is not null and tls_fingerprint is not null order by id`);

/** Says where this run of the node listens and by which certificate it is known; undefined: nowhere. */
export const writeNodeAddress = (
  db: Db,
  { id, epoch }: NodeRun,
  at: { address: string; tls_fingerprint: string } | undefined,
): Promise<number> =>
  db.run(sql`
    update node set address = ${at?.address ?? null}, tls_fingerprint = ${at?.tls_fingerprint ?? null}
    where id = ${id} and epoch = ${epoch}`);
