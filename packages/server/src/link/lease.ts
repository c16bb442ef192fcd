import type { Clock } from "@robofleet/clock";
import type { Logger } from "pino";
import { background, type Background } from "../kernel/background.ts";
import type { Db } from "../kernel/db.ts";
import { bigint, row, sql } from "../kernel/sql.ts";

/** A node whose lease is over is dead: its robots count as offline. */
export const LEASE_MS = 15_000;
const RENEW_EVERY_MS = 5_000;

const epochRow = row({ epoch: bigint });

/** Registers this run of the node: the epoch is higher than that of every run before. */
export async function takeLease(db: Db, clock: Clock, node_id: string): Promise<number> {
  const now = clock.now();
  const { epoch } = await db.one(sql(epochRow)`
    insert into node (id, epoch, lease_expires_at, started_at) values (${node_id}, 1, ${new Date(now.getTime() + LEASE_MS)}, ${now})
    on conflict (id) do update set epoch = node.epoch + 1, lease_expires_at = excluded.lease_expires_at, started_at = excluded.started_at
    returning epoch`);
  return epoch;
}

export interface LeaseContext {
  db: Db;
  clock: Clock;
  log: Logger;
  node: { id: string; epoch: number };
}

/** Keeps the lease; `swept` is called each time, to take note of nodes that died. */
export function keepLease(context: LeaseContext, swept: () => Promise<unknown>): Background {
  const { db, clock, node, log } = context;
  return background(context, "lease", RENEW_EVERY_MS, async () => {
    const renewed = await db.run(sql`
      update node set lease_expires_at = ${new Date(clock.now().getTime() + LEASE_MS)} where id = ${node.id} and epoch = ${node.epoch}`);
    if (renewed === 0) log.error({ node_id: node.id }, "another process runs under this node's id");
    await swept();
  });
}

/** The node stopped in good order: nobody needs to wait for its lease to end. */
export async function giveUpLease({ db, clock, node }: LeaseContext): Promise<void> {
  await db.run(sql`update node set lease_expires_at = ${clock.now()} where id = ${node.id} and epoch = ${node.epoch}`);
}
