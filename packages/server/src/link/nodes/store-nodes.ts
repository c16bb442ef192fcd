import type { Db } from "../../kernel/db.ts";
import { bigint, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";
import type { NodeRun } from "../lease.ts";

const nodeRow = row({ id: text, epoch: bigint, address: text, tls_fingerprint: text });
/** One run of a node that others can connect to. */
export type KnownNode = RowOf<typeof nodeRow>;

/** Returns the living nodes that listen for others. */
export const listNodes = (db: Db): Promise<KnownNode[]> =>
  db.many(sql(nodeRow)`
    select ${nodeRow} from node where not is_over and address is not null and tls_fingerprint is not null order by id`);

/** Stores the address and certificate fingerprint of this run of the node; undefined: it does not listen. */
export const writeNodeAddress = (
  db: Db,
  { id, epoch }: NodeRun,
  at: { address: string; tls_fingerprint: string } | undefined,
): Promise<number> =>
  db.run(sql`
    update node set address = ${at?.address ?? null}, tls_fingerprint = ${at?.tls_fingerprint ?? null}
    where id = ${id} and epoch = ${epoch}`);

const refusedRow = row({ refused_host: text, refused_host_at: timestamptz });

/** Stores the latest host that a robot signed for and this node refused. */
export const writeRefusedHost = (db: Db, { id, epoch }: NodeRun, { host, at }: { host: string; at: Date }): Promise<number> =>
  db.run(sql`update node set refused_host = ${host}, refused_host_at = ${at} where id = ${id} and epoch = ${epoch}`);

/** Returns the hosts that nodes refused since then, without duplicates, the latest first. */
export const listRefusedHosts = async (db: Db, since: Date): Promise<string[]> =>
  (
    await db.many(sql(refusedRow)`
      select refused_host, max(refused_host_at) as refused_host_at from node where refused_host_at >= ${since}
      group by refused_host order by refused_host_at desc`)
  ).map(({ refused_host }) => refused_host);
