import { randomBytes } from "node:crypto";
import type pg from "pg";
import { appendAudit } from "../../packages/server/src/kernel/audit.ts";
import type { Caller } from "../../packages/server/src/kernel/caller.ts";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { desiredOf } from "../../packages/server/src/features/deployments/dispatch/desired.ts";
import { listClaimable, listDue } from "../../packages/server/src/features/deployments/store/claim.ts";
import { pack } from "../../packages/server/src/features/logs/codec.ts";
import { insertBatch } from "../../packages/server/src/features/logs/store.ts";
import { listRobots } from "../../packages/server/src/features/robots/store-list.ts";
import { ALL_PARTS, findRobot } from "../../packages/server/src/features/robots/store-shown.ts";
import { insertSite } from "../../packages/server/src/features/sites/store.ts";
import { RECORDS_PER_BATCH, recordsFrom } from "../log-records.ts";
import { type BareQuery, statementsOf } from "../statements.ts";

/** The objects that the statements use. */
export interface FloorContext {
  org_id: string;
  robot_ids: readonly string[];
  /** A time that is later than the due time of the rows. */
  due_at: Date;
}

/** A database operation of the product: the statements of its stores, in their transaction. */
export interface FloorStatement {
  name: string;
  /** Work across orgs, without row-level security. */
  system?: true;
  /** The operation can be repeated with the same parameters. */
  repeatable?: true;
  /** `n` increases with each call and never repeats. */
  work(db: Db, n: number): Promise<unknown>;
}

/** Returns the database operations of the product's routes and loops. */
export function floorStatements({ org_id, robot_ids, due_at }: FloorContext): FloorStatement[] {
  const caller: Caller = {
    org_id,
    role: "admin",
    grants: [{ role: "admin", scopes: [] }] as unknown as Caller["grants"],
    limit: [],
    actor: { type: "user", id: "usr_bench", name: "bench" },
    token_id: "tok_bench",
    orgs: [],
  };
  const robotOf = (n: number): string => robot_ids[n % robot_ids.length] ?? "";
  const id = (prefix: string): string => `${prefix}_${randomBytes(13).toString("hex")}`;
  const site = (db: Db) =>
    insertSite(db, { org_id, id: id("site"), name: id("bench"), at: new Date() }, () => new Error("the name is taken"));
  return [
    { name: "one robot", repeatable: true, work: (db, n) => findRobot(db, org_id, robotOf(n)) },
    {
      name: "a list of 100 robots",
      repeatable: true,
      work: (db) => listRobots(db, caller, { labels: [] }, { sort: "newest", after: null, limit: 101 }, ALL_PARTS),
    },
    { name: "a site inserted", work: site },
    { name: "an audit entry inserted", work: (db) => audit(db, caller) },
    {
      name: "a site and its audit entry in one transaction, as POST does it",
      work: (db) =>
        db.transaction(async (tx) => {
          await site(tx);
          await audit(tx, caller);
        }),
    },
    { name: "due deployments claimed (100)", system: true, repeatable: true, work: (db) => listDue(db, due_at, 100, []) },
    { name: "queued targets found (500)", system: true, repeatable: true, work: (db) => listClaimable(db, due_at, 500) },
    { name: "a batch of 50 log records stored", work: (db, n) => storeLogs(db, org_id, robotOf(n), Math.floor(n / robot_ids.length)) },
    { name: "what one robot is to look like", repeatable: true, work: (db, n) => desiredOf(db, org_id, [robotOf(n)]) },
    { name: "what 200 robots are to look like", repeatable: true, work: (db) => desiredOf(db, org_id, robot_ids.slice(0, 200)) },
  ];
}

function audit(db: Db, { org_id, actor, token_id }: Caller): Promise<void> {
  const stamps = { id: (prefix: string) => `${prefix}_${randomBytes(13).toString("hex")}`, clock: { now: () => new Date() } };
  return appendAudit(db, stamps as unknown as Parameters<typeof appendAudit>[1], {
    org_id,
    actor,
    token_id,
    action: "createSite",
    method: "POST",
    path: "/api/sites",
    object_id: stamps.id("site"),
    status: 201,
    error: null,
    ip: "127.0.0.1",
    user_agent: "bench",
    request_id: stamps.id("req"),
    data: {},
  });
}

/** The same bytes each time, because compression is not the database's work. */
const PACKED = pack(recordsFrom(1));

/** Stores the log flush number `nth` of a robot. Its records follow those of the previous flush. */
function storeLogs(db: Db, org_id: string, robot_id: string, nth: number): Promise<number> {
  const at = new Date();
  return insertBatch(db, {
    org_id,
    robot_id,
    outbox_id: "bench",
    before: nth * RECORDS_PER_BATCH,
    first_seq: nth * RECORDS_PER_BATCH + 1,
    last_seq: (nth + 1) * RECORDS_PER_BATCH,
    received_at: at,
    first_at: at,
    last_at: at,
    record_count: RECORDS_PER_BATCH,
    ...PACKED,
  });
}

/** Sends the recorded statements sequentially over one connection: prepared, with the bare driver. */
export async function sendBare(client: pg.Client, queries: readonly (readonly BareQuery[])[]): Promise<void> {
  for (const one of queries) for (const query of one) await client.query(query.name === undefined ? query.text : query);
}

/** Returns the recorded queries of `count` repetitions, so that they can be sent without further work. */
export const bareQueries = (statement: FloorStatement, from: number, count: number): Promise<BareQuery[][]> =>
  Promise.all(Array.from({ length: count }, (_, i) => statementsOf((db) => statement.work(db, from + i))));
