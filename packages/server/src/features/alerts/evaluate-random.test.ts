import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import type { IncidentStatus } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { int, nullable, row, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { evaluateOrg } from "./evaluate.ts";

const STEPS = 150;
const SITES = 2;
const ROBOTS_OF_SITE = 3;
const FOR_SECONDS = 60;
/** Every mute of a run ends within this time. */
const MUTE_MINUTES_MAX = 5;
/** Longer than the longest time for which an incident without matches waits for its resolution. */
const QUIET_STEPS = 240;

/** Interrupts a transaction before one of its statements, like a server that is killed there. */
class Killed extends Error {}

/** Returns a database that fails with Killed before its statement number `survives`, counted from 0. */
function killedAfter(db: Db, survives: number): Db {
  let statements = 0;
  const dying = (one: Db): Db =>
    new Proxy(one, {
      get: (target, name) => {
        if (name === "transaction") return <T>(work: (tx: Db) => Promise<T>) => target.transaction((tx) => work(dying(tx)));
        const value = Reflect.get(target, name) as (...args: unknown[]) => unknown;
        if (!["many", "one", "maybe", "run", "atCommit"].includes(String(name))) return value.bind(target);
        return (...args: unknown[]): unknown => {
          if (statements === survives) throw new Killed(`before statement ${survives}`);
          statements += 1;
          return value.apply(target, args);
        };
      },
    });
  return dying(db);
}

for (const seed of [1, 2, 3, 4])
  test(`each incident is reported once, with random robots, mutes and kills (seed ${seed})`, { timeout: 120_000 }, async () => {
    const random = seededRandom(seed);
    const pick = (n: number): number => Math.floor(random() * n);
    await using rig = await startFeaturePlane([]);
    const { plane, clock } = rig;
    const { db } = plane;
    const start = async () => {
      const { org_id } = await rig.org();
      const now = clock.now();
      await db.run(sql`insert into alert_evaluation (org_id, next_at) values (${org_id}, ${now})`);
      await db.run(sql`
        insert into alert_rule (org_id, id, name, condition, for_seconds, severity, created_at, updated_at)
        values (${org_id}, 'alr_1', 'Robot offline', '{"type": "robot_offline"}', ${FOR_SECONDS}, 'warning', ${now}, ${now})`);
      await db.run(sql`
        insert into alert_channel (org_id, id, name, kind, destination, sealed, created_at, updated_at)
        values (${org_id}, ${`chn_${org_id}`}, 'hook', 'webhook', 'hooks.test', '', ${now}, ${now})`);
      const robots = [];
      for (let site = 0; site < SITES; site += 1) {
        const first = await seedRobot(plane, org_id);
        robots.push(first);
        for (let i = 1; i < ROBOTS_OF_SITE; i += 1) robots.push(await seedRobot(plane, org_id, first));
      }
      await db.run(sql`update robot set connected_at = ${now}, node_id = 'node_a' where org_id = ${org_id}`);
      return { org_id, robots, offline_since: new Map<string, number>(), evaluated: 0 };
    };
    const orgs = [await start(), await start()];
    const setOnline = (org_id: string, robot_id: string, online: boolean) =>
      db.run(sql`update robot set node_id = ${online ? "node_a" : null} where org_id = ${org_id} and id = ${robot_id}`);
    const memberRow = row({ subject_id: text });
    const matched = async (org_id: string): Promise<string[]> =>
      (
        await db.many(sql(memberRow)`
          select m.subject_id from alert_match m join incident i on i.org_id = m.org_id and i.id = m.incident_id
          where m.org_id = ${org_id} and i.status <> 'resolved'`)
      ).map(({ subject_id }) => subject_id);

    for (let step = 0; step < STEPS + QUIET_STEPS; step += 1) {
      await clock.advance({ seconds: 10 });
      for (const org of orgs) {
        const { org_id, robots, offline_since } = org;
        if (step === STEPS) {
          for (const { robot_id } of robots) await setOnline(org_id, robot_id, true);
          offline_since.clear();
        }
        if (step < STEPS && pick(4) === 0) {
          // One robot, or all robots of a site, as after a network failure.
          const { robot_id, site_id } = robots[pick(robots.length)] ?? assert.fail();
          const online = offline_since.has(robot_id);
          for (const robot of robots.filter((one) => one.robot_id === robot_id || (step % 3 === 0 && one.site_id === site_id))) {
            await setOnline(org_id, robot.robot_id, online);
            if (online) offline_since.delete(robot.robot_id);
            else if (!offline_since.has(robot.robot_id)) offline_since.set(robot.robot_id, org.evaluated);
          }
        }
        if (step < STEPS - MUTE_MINUTES_MAX * 6 && pick(20) === 0) {
          const now = clock.now();
          const until = new Date(now.getTime() + (1 + pick(MUTE_MINUTES_MAX)) * 60_000);
          await db.run(sql`
            insert into alert_mute (org_id, id, from_at, until_at, created_by, created_at)
            values (${org_id}, ${plane.id("mut")}, ${now}, ${until}, '{}', ${now})`);
        }
        const own = db.forOrg(org_id);
        try {
          await evaluateOrg(step < STEPS && pick(3) === 0 ? killedAfter(own, pick(12)) : own, plane, org_id);
          org.evaluated += 1;
        } catch (error) {
          if (!(error instanceof Killed)) throw error;
        }
        // A robot that has been offline for the duration of the rule, at each evaluation, is in an unresolved incident.
        const members = await matched(org_id);
        for (const [robot_id, since] of offline_since)
          if (org.evaluated - since > FOR_SECONDS / 10 + 1) assert.ok(members.includes(robot_id), `${robot_id} in step ${step}`);
      }
    }

    const deliveryRow = row({ id: text, incident_id: nullable(text), channel_id: text, kind: text, created_at: timestamptz });
    const incidentRow = row({ id: text, status: textOf<IncidentStatus>(), notified_at: nullable(timestamptz), flap_count: int });
    let reported = 0;
    for (const { org_id } of orgs) {
      const incidents = await db.many(sql(incidentRow)`select ${incidentRow} from incident where org_id = ${org_id}`);
      const deliveries = await db.many(sql(deliveryRow)`select ${deliveryRow} from alert_delivery where org_id = ${org_id} order by id`);
      for (const { id, status, notified_at } of incidents) {
        assert.equal(status, "resolved");
        const kinds = deliveries.filter(({ incident_id }) => incident_id === id).map(({ kind }) => kind);
        // Opened, resolved, and the same again after each reopening; nothing if it was muted for as long as it lasted.
        kinds.forEach((kind, i) => assert.equal(kind, i % 2 === 0 ? "opened" : "resolved"));
        assert.equal(kinds.length % 2, 0);
        if (notified_at !== null) assert.ok(kinds.length > 0, id);
      }
      const known = new Set(incidents.map(({ id }) => id));
      for (const { incident_id, channel_id, kind, created_at } of deliveries) {
        assert.ok(incident_id !== null && known.has(incident_id), "no message is about an incident of another org");
        assert.equal(channel_id, `chn_${org_id}`);
        const muted = row({ count: int });
        const { count } = await db.one(sql(muted)`
          select count(*)::int as count from alert_mute where org_id = ${org_id} and from_at <= ${created_at} and until_at > ${created_at}`);
        if (kind === "opened") assert.equal(count, 0, "no opening is reported while it is muted");
      }
      reported += deliveries.length;
    }
    assert.ok(reported >= 4, `the run reported ${reported} messages, too few to show anything`);
  });
