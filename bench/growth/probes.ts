import { systemClock } from "@roamfleet/clock";
import { type DailyTable, keepPartitions } from "../../packages/server/src/kernel/daily-partitions.ts";
import { deleteExpiredKeys } from "../../packages/server/src/kernel/idempotency.ts";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { setOfflineOfDeadNodes } from "../../packages/server/src/features/robots/store-presence.ts";
import { listClaimable, listDue } from "../../packages/server/src/features/deployments/store/claim.ts";
import type { Filled } from "./fill.ts";

/** A list that a client requests. Its first page and a page in the middle are measured. */
export interface ListProbe {
  name: string;
  /** Path and filters, without `limit` and `cursor`. */
  path(filled: Filled): string;
  /** Table whose middle row starts the measured page in the middle. Absent: that page is found by following cursors. */
  table?: string;
  /** Rows per page. Default: PAGE_ROWS. */
  rows?: number;
}

const list = (name: string, path: string, table: string): ListProbe => ({ name, path: () => path, table });
const robots = (filter: string): ListProbe => list(filter === "" ? "robots" : `robots?${filter}`, `/api/robots?${filter}`, "robot");
/** A robot list filtered by an ID. In the results, a name is shown instead of the ID. */
const robotsOf = (filter: string, of: (filled: Filled) => string): ListProbe => ({
  ...robots(filter),
  path: (filled) => `/api/robots?${filter}=${of(filled)}`,
});

/** Every list whose size grows with the number of robots. Rare objects number a few hundred in an org of any size. */
export const LISTS: readonly ListProbe[] = [
  robots(""),
  robots("sort=name"),
  robots("status=online"),
  robots("status=offline"),
  robots("status=never_connected"),
  robots("status=decommissioned"),
  robotsOf("fleet_id", ({ fleet }) => fleet),
  robotsOf("site_id", ({ site }) => site),
  robots("label=zone:rare"),
  robots("label=zone:z7"),
  robots("health=ok"),
  robots("health=failing"),
  robots("health=unknown"),
  robotsOf("release_id", ({ rare_release }) => rare_release),
  robots("app=arm"),
  robots("release_state=current"),
  robots("release_state=behind"),
  robots("release_state=failed"),
  robots("release_state=unknown"),
  robots("config_state=in_sync"),
  robots("config_state=pending"),
  robots("config_state=drifted"),
  robots("config_state=unknown"),
  list("sites", "/api/sites", "site"),
  list("fleets", "/api/fleets", "fleet"),
  { ...list("fleets?site_id", "", "fleet"), path: ({ site }) => `/api/fleets?site_id=${site}` },
  list("releases", "/api/releases", "release"),
  list("releases?tag", "/api/releases?tag=v7", "release"),
  list("deployments", "/api/deployments", "deployment"),
  list("deployments?status", "/api/deployments?status=failed", "deployment"),
  { ...list("deployments?robot_id", "", "deployment"), path: ({ robot }) => `/api/deployments?robot_id=${robot}` },
  { ...list("deployments?fleet_id", "", "deployment"), path: ({ fleet }) => `/api/deployments?fleet_id=${fleet}` },
  { ...list("targets", "", "deployment_target"), path: ({ deployment }) => `/api/deployments/${deployment}/targets` },
  { ...list("targets?status", "", "deployment_target"), path: ({ deployment }) => `/api/deployments/${deployment}/targets?status=failed` },
  list("timeline", "/api/timeline", "timeline_entry"),
  list("timeline?kind", "/api/timeline?kind=shell", "timeline_entry"),
  { ...list("timeline?since", "", "timeline_entry"), path: () => `/api/timeline?since=${hoursAgo(24)}` },
  { ...list("timeline?until", "", "timeline_entry"), path: () => `/api/timeline?until=${hoursAgo(240)}` },
  { ...list("timeline?fleet_id", "", "timeline_entry"), path: ({ fleet }) => `/api/timeline?fleet_id=${fleet}` },
  { ...list("robot's timeline", "", "timeline_entry"), path: ({ robot }) => `/api/robots/${robot}/timeline` },
  list("audit", "/api/audit", "audit_entry"),
  list("audit?action", "/api/audit?action=deleteSite", "audit_entry"),
  list("audit?actor_id", "/api/audit?actor_id=usr_rare", "audit_entry"),
  list("audit?token_id", "/api/audit?token_id=tok_rare", "audit_entry"),
  list("audit?outcome", "/api/audit?outcome=refused", "audit_entry"),
  { ...list("audit?action&since", "", "audit_entry"), path: () => `/api/audit?action=deleteSite&since=${hoursAgo(100)}` },
  { ...list("audit?until", "", "audit_entry"), path: () => `/api/audit?until=${hoursAgo(240)}` },
  { ...list("audit?object_id", "", "audit_entry"), path: ({ robot }) => `/api/audit?object_id=${robot}` },
  list("users", "/api/users", "user_account"),
  list("tokens", "/api/tokens", "credential"),
  { ...list("tokens?user_id", "", "credential"), path: () => "/api/tokens?user_id=usr_00000000000000000000000007" },
  list("enrollment keys", "/api/enrollment-keys", "enrollment_key"),
  list("enrollment keys?status", "/api/enrollment-keys?status=revoked", "enrollment_key"),
  list("configs", "/api/configs", "config_entry"),
  { ...list("configs?scope_id", "", "config_entry"), path: () => "/api/configs?scope=robot&scope_id=rob_00000000000000000000000007" },
  { name: "a robot's log", path: ({ robot }) => `/api/robots/${robot}/logs?` },
  { name: "a robot's log, searched", path: ({ robot }) => `/api/robots/${robot}/logs?q=goal+49+reached` },
  { name: "a fleet's log", path: ({ fleet }) => `/api/fleets/${fleet}/logs?` },
];

/** Rounded to the minute, so that databases of all sizes get the same request. */
function hoursAgo(hours: number): string {
  const at = new Date(Math.floor(Date.now() / 60_000) * 60_000 - hours * 3_600_000);
  return at.toISOString();
}

/** Internal work of the server, across orgs. */
export interface WorkProbe {
  name: string;
  /** Runs before each measurement; not counted. */
  prepare?(db: Db, filled: Filled): Promise<unknown>;
  work(db: Db): Promise<unknown>;
  /** A time that meets the goal whatever the ratio. */
  ms_max?: number;
}

const DAY_MS = 86_400_000;
const LOGS: DailyTable = { name: "log_batch", column: "received_at", lock: 7_600_001 };
const LOG_DAYS = 30;
const SELF = { id: "node_other", epoch: 1 };
const quiet = createLog({ level: "error" });

/** A partition of an old day with a batch of every tenth robot. */
async function makeOldDay(db: Db, { robots }: Filled): Promise<void> {
  await db.run(sql`create table log_batch_20200101 (like log_batch including all)`);
  await db.run(sql`
    insert into log_batch_20200101 (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
    select org_id, robot_id, first_seq, last_seq, '2020-01-01T12:00:00Z', first_at, last_at, record_count, codec, records
    from log_batch where first_seq = 1 limit ${robots / 10}`);
  await db.run(
    sql`alter table log_batch attach partition log_batch_20200101 for values from ('2020-01-01 00:00:00+00') to ('2020-01-02 00:00:00+00')`,
  );
}

export const WORK: readonly WorkProbe[] = [
  { name: "due deployments claimed (100)", work: (db) => listDue(db, new Date(Date.now() + 2 * DAY_MS), 100, []) },
  { name: "nothing due, looked for", work: (db) => listDue(db, new Date(), 100, []) },
  { name: "queued targets claimed (500)", work: (db) => listClaimable(db, new Date(Date.now() + 2 * DAY_MS), 500) },
  { name: "no target to dispatch, looked for", work: (db) => listClaimable(db, new Date(), 500) },
  { name: "keys of idempotency that are over, looked for", work: (db) => deleteExpiredKeys(db, new Date(), 5_000, 0) },
  { name: "robots of dead nodes, looked for", work: (db) => setOfflineOfDeadNodes(db, SELF, 5_000, 0) },
  {
    name: "logs of an old day dropped",
    // The file system removes a large file more slowly than a small one.
    ms_max: 20,
    prepare: makeOldDay,
    work: (db) => keepPartitions({ db, clock: systemClock, retention_clock: systemClock, log: quiet }, LOGS, LOG_DAYS),
  },
];
