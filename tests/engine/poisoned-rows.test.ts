import assert from "node:assert/strict";
import { test } from "node:test";
import { dropAuditEntries } from "../../packages/server/src/kernel/audit.ts";
import type { Background } from "../../packages/server/src/kernel/background.ts";
import { deleteExpiredKeys } from "../../packages/server/src/kernel/idempotency.ts";
import { deleteIsolated } from "../../packages/server/src/kernel/retention.ts";
import { identifier, int, row, sql, type Statement } from "../../packages/server/src/kernel/sql.ts";
import { dropDeploymentEvents, dropDeployments } from "../../packages/server/src/features/deployments/index.ts";
import { flush as flushHealth, addPoint } from "../../packages/server/src/features/health/history.ts";
import { healthOf } from "../../packages/server/src/features/health/testing/health-of.ts";
import { countStored } from "../../packages/server/src/features/logs/usage.ts";
import { dropPendingOrgs } from "../../packages/server/src/features/orgs/index.ts";
import { startBlobSweep, startUploadExpiry } from "../../packages/server/src/features/releases/index.ts";
import { compareLinks, flushSeen, sweepDeadNodes, sweepNonces } from "../../packages/server/src/features/robots/index.ts";
import { dropRecordings } from "../../packages/server/src/features/shells/retention.ts";
import { sweepTickets } from "../../packages/server/src/features/streams/tickets.ts";
import { dropTimelineEntries } from "../../packages/server/src/features/timeline/index.ts";
import { createCredential, createPortalAuthenticator, sweepSessions } from "../../packages/server/src/features/tokens/index.ts";
import { type Harness, startPlane } from "../harness/index.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = "2030-01-01T00:00:00Z";
/** Number of rows of one org that cannot be changed. These rows are first in every processing order. */
const POISONED = 10;
const ORGS = { bad: POISONED, good: 1 } as const;
type Side = keyof typeof ORGS;
const OLD = "2028-01-01T00:00:00Z";
const BEFORE = new Date("2029-01-01T00:00:00Z");
const SYSTEM = `{"type":"system","id":null,"name":null}`;

type Plane = Harness["plane"];
interface Case {
  loop: string;
  /** The table whose rows cannot be changed. */
  table: string;
  /** Inserts the rows of one org, numbered from 1, with ids that start with `prefix`. */
  seed: (of: {
    org_id: string;
    side: Side;
    prefix: string;
    count: number;
    plane: Plane;
  }) => Statement<unknown>[] | Promise<Statement<unknown>[]>;
  /** Counts the rows of one org that the loop has not processed. */
  left: (of: { org_id: string; prefix: string }) => Statement<{ n: number }>;
  /** Runs the loop once, for loops that rarely run. Absent: the loop is already running, and processes the rows within 35 s. */
  turn?: (plane: Plane) => Promise<unknown>;
  /** The message that the log must contain, if the failure neither rejects the run nor logs the row's ID. */
  message?: string;
}

const n = row({ n: int });
const robots = sql`'rob_' || g || '_'`;

/** Creates deployments to one robot each, with their targets. Their IDs start with `prefix`. */
const deployments = (prefix: string, org_id: string, count: number, change: Statement<unknown>, target: Statement<unknown> | null) => [
  sql`insert into deployment (org_id, id, kind, target_kind, robot_id, app, status, fan_out_at, fan_out_done_at, expires_at, count_total, count_queued, created_by, created_at, updated_at)
    select ${org_id}, ${prefix}::text || g, 'release', 'robot', ${robots} || ${org_id}::text, 'main', 'queued', ${AT}, ${AT}, '2030-02-01', 1, 1, ${SYSTEM}::jsonb, ${AT}, ${AT}
    from generate_series(1, ${count}::int) g`,
  sql`update deployment set ${change} where org_id = ${org_id} and id like ${prefix} || '%'`,
  ...(target === null
    ? []
    : [
        sql`insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, waiting_for, created_at, updated_at)
          select ${org_id}, ${prefix}::text || g, 'tgt_' || ${prefix}::text || g, 'release', ${robots} || ${org_id}::text, ${prefix}::text, 'queued', 'slot', ${AT}, ${AT}
          from generate_series(1, ${count}::int) g`,
        sql`update deployment_target set ${target} where org_id = ${org_id} and deployment_id like ${prefix} || '%'`,
      ]),
];

const unfinished = ({ org_id, prefix }: { org_id: string; prefix: string }) =>
  sql(n)`select count(*)::int as n from deployment where org_id = ${org_id} and id like ${prefix} || '%' and finished_at is null`;
const leftIn = (table: Statement<unknown>, condition: Statement<unknown>) => (of: { org_id: string; prefix: string }) =>
  sql(n)`select count(*)::int as n from ${table} where org_id = ${of.org_id} and ${condition}`;
const NO_CHANGE = sql`updated_at = updated_at`;

const ENGINE: Case[] = [
  {
    loop: "fan-out",
    table: "deployment",
    seed: ({ prefix, org_id, count }) =>
      deployments(
        prefix,
        org_id,
        count,
        sql`target_kind = 'fleet', robot_id = null, fleet_id = 'fleet_none', fan_out_done_at = null, count_queued = 0`,
        null,
      ),
    left: unfinished,
  },
  {
    loop: "rollouts",
    table: "deployment",
    seed: ({ prefix, org_id, count }) => deployments(prefix, org_id, count, sql`status = 'in_progress', step_at = ${AT}`, NO_CHANGE),
    left: ({ org_id, prefix }) =>
      sql(n)`select count(*)::int as n from deployment where org_id = ${org_id} and id like ${prefix} || '%' and step_at = ${AT}`,
  },
  {
    loop: "cancellations",
    table: "deployment",
    seed: ({ prefix, org_id, count }) =>
      deployments(prefix, org_id, count, sql`status = 'cancelling', cancel_requested_at = ${AT}, cancel_mode = 'finish'`, NO_CHANGE),
    left: unfinished,
  },
  {
    loop: "rollbacks",
    table: "deployment",
    seed: ({ prefix, org_id, count }) =>
      deployments(prefix, org_id, count, sql`status = 'rolling_back', rollback_requested_at = ${AT}`, NO_CHANGE),
    left: unfinished,
  },
  {
    loop: "deadlines",
    table: "deployment_target",
    seed: ({ prefix, org_id, count }) =>
      deployments(
        prefix,
        org_id,
        count,
        sql`status = 'in_progress', count_queued = 0, count_active = 1`,
        sql`status = 'dispatched', waiting_for = null, attempt = 1, deadline_at = ${AT}`,
      ),
    left: ({ org_id, prefix }) =>
      sql(
        n,
      )`select count(*)::int as n from deployment_target where org_id = ${org_id} and deployment_id like ${prefix} || '%' and deadline_at = ${AT}`,
  },
  {
    loop: "expiry",
    table: "deployment",
    seed: ({ prefix, org_id, count }) => deployments(prefix, org_id, count, sql`expires_at = ${AT}`, NO_CHANGE),
    left: unfinished,
  },
  {
    loop: "schedule",
    table: "deployment_due",
    seed: ({ prefix, org_id, count }) => [
      ...deployments(
        prefix,
        org_id,
        count,
        sql`status = 'scheduled', scheduled_at = ${AT}, fan_out_at = null, fan_out_done_at = null, expires_at = null, count_total = 0, count_queued = 0`,
        null,
      ),
      sql`insert into deployment_due (org_id, id, due_at) select org_id, id, ${AT} from deployment where org_id = ${org_id} and id like ${prefix} || '%'`,
    ],
    left: ({ org_id, prefix }) =>
      sql(n)`select count(*)::int as n from deployment where org_id = ${org_id} and id like ${prefix} || '%' and status = 'scheduled'`,
  },
  {
    loop: "dispatch",
    table: "deployment_target",
    seed: ({ prefix, org_id, count }) => deployments(prefix, org_id, count, NO_CHANGE, sql`waiting_for = null`),
    left: ({ org_id, prefix }) =>
      sql(
        n,
      )`select count(*)::int as n from deployment_target where org_id = ${org_id} and deployment_id like ${prefix} || '%' and waiting_for is null`,
  },
  {
    loop: "repair",
    table: "deployment_target",
    seed: ({ prefix, org_id, count }) => deployments(prefix, org_id, count, NO_CHANGE, sql`waiting_for = 'previous_deployment'`),
    left: ({ org_id, prefix }) =>
      sql(
        n,
      )`select count(*)::int as n from deployment_target where org_id = ${org_id} and deployment_id like ${prefix} || '%' and waiting_for = 'previous_deployment'`,
  },
  {
    loop: "authority",
    table: "authority_change",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into authority_change (org_id, kind, subject_id, changed_at) select ${org_id}, 'token', ${prefix}::text || g, ${AT} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`authority_change`, sql`true`),
  },
  {
    loop: "follow",
    table: "fleet",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into fleet (org_id, id, site_id, name, follow_cursor, created_at, updated_at)
        select ${org_id}, ${prefix}::text || g, 'site_' || ${org_id}::text, ${prefix}::text || g, '', ${AT}, ${AT} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`fleet`, sql`follow_cursor is not null`),
  },
];

const robotRows = (org_id: string, prefix: string, count: number, node: Statement<unknown>) => [
  sql`insert into robot (org_id, id, name, site_id, fleet_id, public_key, node_id, node_epoch, created_at, updated_at)
    select ${org_id}, 'rob_' || ${prefix}::text || g, ${prefix}::text || g, 'site', 'fleet', decode(md5(${prefix}::text || g), 'hex'), ${node}, ${AT}, ${AT}
    from generate_series(1, ${count}::int) g`,
];
const onlineRobots = leftIn(sql`robot`, sql`node_id is not null`);
const wakeOnce =
  (start: (plane: Plane) => Background) =>
  async (plane: Plane): Promise<void> => {
    const loop = start(plane);
    loop.wake();
    await loop.settled();
    await loop.stop();
  };

const SWEEPS: Case[] = [
  {
    loop: "timeline",
    table: "timeline_entry",
    seed: ({ org_id, count }) => [
      sql`insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary, data)
        select ${org_id}, ${robots} || ${org_id}::text, 'evt_000' || g, ${OLD}, 'test', ${SYSTEM}::jsonb, 'test', '{}' from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`timeline_entry`, sql`kind = 'test'`),
    turn: (plane) => dropTimelineEntries(plane, BEFORE),
    message: "retention failed for an org",
  },
  {
    loop: "audit",
    table: "audit_entry",
    seed: ({ org_id, count }) => [
      sql`insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id, status)
        select ${org_id}, 'aud_000' || g, ${OLD}, ${SYSTEM}::jsonb, 'test', 'POST', '/', '127.0.0.1', 'req', 200 from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`audit_entry`, sql`action = 'test'`),
    turn: (plane) => dropAuditEntries(plane, BEFORE),
    message: "retention failed for an org",
  },
  {
    loop: "deployment events",
    table: "deployment_event",
    seed: ({ prefix, org_id, count }) => [
      ...deployments(prefix, org_id, count, sql`status = 'applied', finished_at = ${OLD}, count_queued = 0`, null),
      sql`insert into deployment_event (org_id, deployment_id, seq, id, at, kind, status, message, actor)
        select org_id, id, 1, 'evt_' || id, ${OLD}, 'deployment.applied', 'applied', 'test', ${SYSTEM}::jsonb from deployment where org_id = ${org_id} and id like ${prefix} || '%'`,
    ],
    left: leftIn(sql`deployment_event`, sql`message = 'test'`),
    turn: (plane) => dropDeploymentEvents(plane, BEFORE),
  },
  {
    loop: "deployments",
    table: "deployment",
    seed: ({ prefix, org_id, count }) =>
      deployments(
        prefix,
        org_id,
        count,
        sql`status = 'applied', finished_at = ${OLD}, count_queued = 0`,
        sql`status = 'applied', waiting_for = null`,
      ),
    left: ({ org_id, prefix }) => sql(n)`select count(*)::int as n from deployment where org_id = ${org_id} and id like ${prefix} || '%'`,
    turn: (plane) => dropDeployments(plane, BEFORE),
  },
  {
    loop: "follow attempts",
    table: "robot_follow",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into robot_follow (org_id, robot_id, subject, deployment_id, created_at)
        select ${org_id}, ${robots} || ${org_id}::text, ${prefix}::text || g, 'dep_none', ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`robot_follow`, sql`true`),
    turn: (plane) => dropDeployments(plane, BEFORE),
  },
  {
    loop: "idempotency keys",
    table: "idempotency",
    seed: ({ org_id, count }) => [
      sql`insert into idempotency (org_id, method, route, key, body_hash, expires_at, created_at)
        select ${org_id}, 'POST', '/test', g::text, decode('00', 'hex'), ${OLD}, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`idempotency`, sql`route = '/test'`),
    turn: (plane) => deleteIsolated(plane.db_errors.isOutage, (limit, offset) => deleteExpiredKeys(plane.db, BEFORE, limit, offset)),
  },
  {
    loop: "request nonces",
    table: "robot_request",
    seed: ({ org_id, count }) => [
      sql`insert into robot_request (org_id, robot_id, nonce, expires_at) select ${org_id}, 'rob', g::text, '2000-01-01' from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`robot_request`, sql`true`),
    turn: (plane) => sweepNonces(plane),
  },
  {
    loop: "sessions",
    table: "web_session",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into credential (id, hash, kind, org_id, role, prefix, created_at, updated_at)
        values (${prefix}, decode(md5(${prefix}), 'hex'), 'org', ${org_id}, 'viewer', 'rf_org_', ${OLD}, ${OLD})`,
      sql`insert into web_session (id, hash, token_id, token_hash, current_org_id, expires_at, used_at, created_at, updated_at)
        select ${prefix}::text || g, decode(md5(${prefix}::text || g), 'hex'), ${prefix}, decode('00', 'hex'), ${org_id}, ${OLD}, ${OLD}, ${OLD}, ${OLD}
        from generate_series(1, ${count}::int) g`,
    ],
    left: ({ org_id }) => sql(n)`select count(*)::int as n from web_session where current_org_id = ${org_id}`,
    turn: (plane) => sweepSessions(plane),
  },
  {
    loop: "pending orgs",
    table: "org",
    seed: ({ side, count }) => [
      sql`insert into org (id, name, status, created_at, updated_at) select ${`org_${side}_pending_`}::text || g, ${side}::text || g, 'pending', ${OLD}, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: ({ org_id }) => sql(n)`select count(*)::int as n from org where id like ${org_id} || '_pending_%'`,
    turn: (plane) => dropPendingOrgs(plane.db, BEFORE),
  },
  {
    loop: "stream tickets",
    table: "stream_ticket",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into stream_ticket (hash, org_id, proof_by, proof_hash, stream, object_id, uses, expires_at, created_at)
        select decode(md5(${prefix}::text || g), 'hex'), ${org_id}, 'token', decode('00', 'hex'), 'logs', 'rob', 1, ${OLD}, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`stream_ticket`, sql`true`),
    turn: (plane) => sweepTickets(plane),
  },
  {
    loop: "recordings",
    table: "shell_session",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into shell_session (org_id, id, robot_id, request_id, actor, ip, terminal, status, node_id, node_epoch, started_at)
        select ${org_id}, ${prefix}::text || g, ${robots} || ${org_id}::text, 'req', ${SYSTEM}::jsonb, '127.0.0.1', false, 'ended', 'node', 1, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`shell_session`, sql`recording_dropped_at is null`),
    turn: (plane) => dropRecordings(plane),
  },
  {
    loop: "blob sweep",
    table: "artifact",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into artifact (org_id, sha256, size, stored_at, unreferenced_at)
        select ${org_id}, md5(${prefix}::text || g) || md5(g::text), 1, ${OLD}, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`artifact`, sql`true`),
    turn: wakeOnce(startBlobSweep),
    message: "a background task failed",
  },
  {
    loop: "upload expiry",
    table: "artifact_upload",
    seed: ({ prefix, org_id, count }) => [
      sql`insert into release (org_id, id, tag, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
        select ${org_id}, ${prefix}::text || g, ${prefix}::text || g, 'file', md5(g::text), 1, 'awaiting_upload', ${AT}, ${AT} from generate_series(1, ${count}::int) g`,
      sql`insert into artifact_upload (org_id, release_id, size, created_at, expires_at) select ${org_id}, ${prefix}::text || g, 1, ${OLD}, ${OLD} from generate_series(1, ${count}::int) g`,
    ],
    left: leftIn(sql`artifact_upload`, sql`true`),
    turn: wakeOnce(startUploadExpiry),
    message: "could not remove an unfinished upload",
  },
  {
    loop: "dead nodes",
    table: "robot",
    seed: ({ prefix, org_id, count }) => robotRows(org_id, prefix, count, sql`'node_gone', 1`),
    left: onlineRobots,
    turn: (plane) => sweepDeadNodes(plane),
  },
  {
    loop: "links",
    table: "robot",
    seed: ({ prefix, org_id, count, plane: { node } }) => robotRows(org_id, prefix, count, sql`${node.id}, ${node.epoch}`),
    left: ({ org_id, prefix }) =>
      sql(n)`select count(*)::int as n from robot where org_id = ${org_id} and name like ${prefix} || '%' and node_id is not null`,
    turn: (plane) => compareLinks(plane),
  },
];

const secrets: string[] = [];

/** Tests buffered writes for robots and tokens: one statement contains the rows of the failing org and of the other org. */
const FLUSHES: Case[] = [
  {
    loop: "last seen",
    table: "robot",
    seed: () => [],
    left: leftIn(sql`robot`, sql`name like 'robot %' and last_seen_at is null`),
    turn: (plane) => flushSeen(plane, new Map(eachRobot(({ org_id, robot_id }) => [robot_id, { org_id, at: plane.clock.now() }]))),
  },
  {
    loop: "health history",
    table: "health_history",
    seed: () => [],
    left: ({ org_id }) => sql(n)`select 1 - least(1, count(*))::int as n from health_history where org_id = ${org_id}`,
    turn: async (plane) => {
      eachRobot(({ org_id, robot_id }) => addPoint(plane, org_id, robot_id, healthOf({}), plane.clock.now()));
      await flushHealth(plane, plane.clock.now());
    },
  },
  {
    loop: "log bytes",
    table: "log_usage",
    seed: ({ plane, org_id, count }) => {
      for (let robot = 0; robot < count; robot += 1) countStored(plane, org_id, `rob_${robot}`, plane.clock.now(), 100);
      return [];
    },
    left: ({ org_id }) => sql(n)`select 1 - least(1, count(*))::int as n from log_usage where org_id = ${org_id}`,
    message: "could not store how many bytes of logs each robot uses",
  },
  {
    loop: "token use",
    table: "credential",
    seed: async ({ org_id, count, plane }) => {
      for (let made = 0; made < count; made += 1)
        secrets.push((await createCredential(plane.db, plane, { kind: "org", org_id, role: "viewer", label: "used" })).secret);
      return [];
    },
    left: leftIn(sql`credential`, sql`label = 'used' and last_used_at is null`),
    turn: async (plane) => {
      const portal = createPortalAuthenticator({ db: plane.db, clock: plane.clock, limits: plane.settings.limits });
      for (const secret of secrets) await portal.authenticate(secret, undefined);
      await portal.flushUsed();
    },
  },
];

function eachRobot<T>(make: (of: { org_id: string; robot_id: string }) => T): T[] {
  return Object.entries(ORGS).flatMap(([side, count]) =>
    Array.from({ length: count }, (_, i) => make({ org_id: `org_${side}`, robot_id: `rob_${i + 1}_org_${side}` })),
  );
}

async function seedOrgs(plane: Harness): Promise<void> {
  for (const [side, count] of Object.entries(ORGS)) {
    const org_id = `org_${side}`;
    await plane.db.run(sql`insert into org (id, name, status, created_at, updated_at) values (${org_id}, ${side}, 'active', ${AT}, ${AT})`);
    await plane.db.run(
      sql`insert into site (org_id, id, name, created_at, updated_at) values (${org_id}, 'site_' || ${org_id}::text, ${side}, ${AT}, ${AT})`,
    );
    await plane.db.run(sql`
      insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
      select ${org_id}, ${robots} || ${org_id}::text, 'robot ' || g, 'site', 'fleet', decode(md5(${org_id}::text || g), 'hex'), ${AT}, ${AT}
      from generate_series(1, ${count}::int) g`);
  }
}

/** Makes inserts, updates and deletes in these tables fail for rows of the failing org. */
async function poison({ db }: Harness, tables: Iterable<string>): Promise<void> {
  await db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$
    declare changed jsonb := to_jsonb(case when tg_op = 'DELETE' then old else new end);
    begin
      if coalesce(changed ->> 'org_id', changed ->> 'current_org_id', changed ->> 'id') like 'org_bad%' then raise exception 'planned: this row fails'; end if;
      return case when tg_op = 'DELETE' then old else new end;
    end $$`);
  for (const table of new Set(tables))
    await db.run(
      sql`create trigger test_fault before insert or update or delete on ${identifier(table)} for each row execute function test_fault()`,
    );
}

const prefixOf = (loop: string, side: Side): string => `${loop.replaceAll(/\W/g, "_")}_${side}_`;

/** Whether a failure of one of the loop's rows was logged. */
const isLogged = (plane: Harness, { loop, message }: Case): boolean =>
  plane.logged.some(({ level, msg, work, id, deployment_id }) => {
    if (level !== "error") return false;
    if (message !== undefined) return msg === message && (work === undefined || work === loop);
    return [id, deployment_id].some((one) => String(one).replace("tgt_", "").startsWith(prefixOf(loop, "bad")));
  });

test("rows of one org that cannot be changed do not delay other orgs in any background loop", TIMEOUT, async (t) => {
  await using plane = await startPlane({ at: AT, nodes: 1 });
  const cases = [...ENGINE, ...SWEEPS, ...FLUSHES];
  await seedOrgs(plane);
  for (const { seed, loop } of cases)
    for (const [side, count] of Object.entries(ORGS) as [Side, number][])
      for (const statement of await seed({ org_id: `org_${side}`, side, prefix: prefixOf(loop, side), count, plane: plane.plane }))
        await plane.db.run(statement);
  await poison(
    plane,
    cases.map(({ table }) => table),
  );
  await plane.advance({ seconds: 65 });
  for (const one of cases)
    await t.test(one.loop, async () => {
      let rejected = false;
      await one.turn?.(plane.plane).catch(() => (rejected = true));
      const left = async (side: Side): Promise<number> =>
        (await plane.db.one(one.left({ org_id: `org_${side}`, prefix: prefixOf(one.loop, side) }))).n;
      assert.deepEqual([await left("good"), (await left("bad")) > 0], [0, true]);
      assert.ok(rejected || isLogged(plane, one), "the failure is reported");
    });
});
