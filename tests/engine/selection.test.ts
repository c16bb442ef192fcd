import assert from "node:assert/strict";
import { test } from "node:test";
import type { TargetSelector } from "@roamfleet/protocol/routes";
import fc from "fast-check";
import { list, row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkCounters, checkEngine } from "./check-engine.ts";
import { seedRobots } from "./seed-robots.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

const targetRow = row({ robot_id: text });
const targetsOf = async ({ db }: Harness, id: string): Promise<string[]> =>
  (await db.many(sql(targetRow)`select robot_id from deployment_target where deployment_id = ${id} order by robot_id`)).map(
    ({ robot_id }) => robot_id,
  );

/** Creates two sites with two fleets each, and four robots in each fleet, half of them with the label line=3. */
async function ground(plane: Harness) {
  const sites = [await plane.site(), await plane.site()];
  const fleets = await Promise.all(sites.flatMap((site_id) => [plane.fleet({ site_id }), plane.fleet({ site_id })]));
  const robots: { id: string; site: number; fleet: number; line: string }[] = [];
  for (const [fleet, fleet_id] of fleets.entries())
    for (let n = 0; n < 4; n += 1) {
      const line = n % 2 === 0 ? "3" : "4";
      const { id } = await plane.enrollRobot({ fleet_id, online: false, labels: { line, zone: "a" } });
      robots.push({ id, site: fleet < 2 ? 0 : 1, fleet, line });
    }
  return { sites, fleets, robots };
}

test("a deployment to a selection has exactly the robots that match every part of it", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { sites, fleets, robots } = await ground(plane);
  const release = await plane.release();
  const [site_id = "", fleet_id = ""] = [sites[0], fleets[0]];
  const robot_ids = robots.filter((_, n) => n % 3 === 0).map(({ id }) => id);
  const cases: [selector: TargetSelector, matches: (robot: (typeof robots)[number]) => boolean][] = [
    [{ site_id }, ({ site }) => site === 0],
    [{ fleet_id }, ({ fleet }) => fleet === 0],
    [{ labels: { line: "3" } }, ({ line }) => line === "3"],
    [{ site_id, labels: { line: "3", zone: "a" } }, ({ site, line }) => site === 0 && line === "3"],
    [{ site_id, fleet_id, robot_ids }, ({ id, fleet }) => fleet === 0 && robot_ids.includes(id)],
    [{ robot_ids: [...robot_ids, ...robot_ids] }, ({ id }) => robot_ids.includes(id)],
  ];
  for (const [target_selector, matches] of cases) {
    const wanted = robots.filter(matches).map(({ id }) => id);
    const { id, counts, target_kind, ...rest } = await plane.deploy(release, { target_selector });
    assert.deepEqual([target_kind, counts.total, rest.target_selector, rest.fleet_id], ["selection", wanted.length, target_selector, null]);
    assert.deepEqual(await targetsOf(plane, id), wanted.toSorted());
    const config = await plane.deployConfig({ target_selector });
    assert.deepEqual(await targetsOf(plane, config.id), wanted.toSorted());
    await plane.api.cancelDeployment({ params: { id } });
  }
  await checkEngine(plane);
});

test("a selection is named in words", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const site_id = (await plane.api.createSite({ body: { name: "Hall A" } })).data.id;
  const fleet_id = await plane.fleet({ name: "Forklifts", site_id });
  const robot = await plane.enrollRobot({ fleet_id, online: false, labels: { line: "3" } });
  const release = await plane.release();
  const words = async (target_selector: TargetSelector): Promise<string | null> => {
    const { id, selection } = await plane.deploy(release, { target_selector });
    assert.equal((await plane.api.getDeployment({ params: { id } })).data.selection, selection);
    const [newest] = (await plane.api.listDeployments({ query: { limit: 1 } })).items;
    assert.deepEqual([newest?.id, newest?.selection], [id, selection]);
    return selection;
  };
  assert.equal(await words({ site_id, labels: { line: "3" } }), "robots of site Hall A with line=3");
  assert.equal(await words({ site_id, fleet_id }), "robots of fleet Forklifts of site Hall A");
  assert.equal(await words({ robot_ids: [robot.id] }), "1 selected robot");
  assert.equal(await words({ labels: { line: "3", zone: "a" } }), "robots with line=3, zone=a");
  assert.equal((await plane.deployConfig({ target_selector: { site_id } })).selection, "robots of site Hall A");
  assert.equal((await plane.deploy(release, { fleet_id })).selection, null);
});

test("the deployments of a robot include those to selections with it, in pages and with the other filters", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { sites, fleets, robots } = await ground(plane);
  const [robot_id = "", other = ""] = [robots[0]?.id, robots[1]?.id];
  const [release, another] = [await plane.release(), await plane.release()];
  const selected = await plane.deploy(release, { target_selector: { site_id: sites[0] ?? "", labels: { line: "3" } } });
  const direct = await plane.deploy(release, { robot_id });
  const direct_to_other = await plane.deploy(release, { robot_id: other });
  const of_other = await plane.deploy(release, { target_selector: { labels: { line: "4" } } });
  const listed = await plane.deploy(another, { target_selector: { robot_ids: [robot_id, other] } });
  await plane.deploy(release, { fleet_id: fleets[0] ?? "" });
  const config = await plane.deployConfig({ target_selector: { fleet_id: fleets[0] ?? "" } });
  const list = async (query: { limit?: number; cursor?: string; release_id?: string; cause?: "request" | "follow" } = {}) =>
    await plane.api.listDeployments({ query: { robot_id, ...query } });
  const idsOf = ({ items }: { items: { id: string }[] }): string[] => items.map(({ id }) => id);
  assert.deepEqual(idsOf(await list()), [listed.id, direct.id, selected.id]);
  const by_other = await plane.api.listDeployments({ query: { robot_id: other } });
  assert.deepEqual(idsOf(by_other), [listed.id, of_other.id, direct_to_other.id]);
  assert.deepEqual(idsOf(await list({ release_id: release.id })), [direct.id, selected.id]);
  assert.deepEqual(idsOf(await list({ cause: "request" })), [listed.id, direct.id, selected.id]);
  assert.deepEqual(idsOf(await list({ cause: "follow" })), []);
  assert.deepEqual(idsOf(await plane.api.listConfigDeployments({ query: { robot_id } })), [config.id]);
  const first = await list({ limit: 2 });
  assert.deepEqual(idsOf(first), [listed.id, direct.id]);
  const last = await list({ limit: 2, cursor: first.next_cursor ?? "" });
  assert.deepEqual([idsOf(last), last.next_cursor], [[selected.id], null]);
});

test("a selection without a matching robot ends cancelled", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  await ground(plane);
  const { status, reason, counts } = await plane.deploy(await plane.release(), { target_selector: { labels: { line: "9" } } });
  assert.deepEqual([status, reason, counts.total], ["cancelled", "no_targets", 0]);
});

test("refuses selectors that select nothing, contradict themselves or name missing objects", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { sites, fleets, robots } = await ground(plane);
  const release = (await plane.release()).id;
  const refusal = async (body: Record<string, unknown>): Promise<string> => {
    const headers = { "idempotency-key": crypto.randomUUID(), "content-type": "application/json" };
    const reply = await plane.api.request("POST", "/api/deployments", { headers, body: JSON.stringify({ release, ...body }) });
    const { error } = (await reply.json()) as { error?: { message: string } };
    return `${reply.status} ${error?.message ?? ""}`;
  };
  const [fleet_id, site_id] = [fleets[0], sites[1]];
  assert.match(await refusal({ target_selector: {} }), /^400 target_selector needs at least one of/);
  assert.match(await refusal({ target_selector: { labels: {} } }), /^400 target_selector\.labels contains no label/);
  assert.match(await refusal({ target_selector: { robot_ids: [] } }), /^400 /);
  assert.match(await refusal({ target_selector: { fleet_id, site_id } }), /^400 fleet .* does not belong to site/);
  assert.match(await refusal({ target_selector: { fleet_id }, fleet_id }), /^400 exactly one of/);
  assert.match(await refusal({ target_selector: { fleet_id }, target_kind: "fleet" }), /^400 target_kind is fleet/);
  assert.match(await refusal({ target_id: robots[0]?.id, target_kind: "selection" }), /^400 target_id needs target_kind/);
  assert.match(await refusal({ target_selector: { fleet_id, follow: true } }), /^400 .*follow/);
  assert.match(await refusal({ target_selector: { site_id: "site_none" } }), /^404 site/);
  assert.match(await refusal({ target_selector: { fleet_id: "fleet_none" } }), /^404 fleet/);
  assert.match(await refusal({ target_selector: { robot_ids: [robots[0]?.id, "rob_none"] } }), /^404 robot/);
  assert.match(await refusal({ target_selector: { robot_ids: Array.from({ length: 1_001 }, () => robots[0]?.id) } }), /^400 /);
  assert.match(await refusal({ target_selector: { fleet_id }, target_kind: "selection" }), /^201 /);
});

test("a dry run shows the robots and waves of a selection", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { sites, robots } = await ground(plane);
  const body = {
    release: (await plane.release()).id,
    target_selector: { site_id: sites[0] ?? "", labels: { line: "3" } },
    rollout: { waves: [{ count: 1 }] },
    dry_run: true,
  };
  const { data } = (await plane.api.createDeployment({ body, idempotency_key: crypto.randomUUID() })) as unknown as {
    data: { total: number; selection: string; waves: { total: number }[]; robots: { robot_id: string }[] };
  };
  const wanted = robots.filter(({ site, line }) => site === 0 && line === "3").map(({ id }) => id);
  assert.deepEqual([data.total, data.waves.map(({ total }) => total)], [4, [1, 3]]);
  assert.deepEqual(data.robots.map(({ robot_id }) => robot_id).toSorted(), wanted.toSorted());
  assert.match(data.selection, /^robots of site .* with line=3$/);
});

interface Move {
  robot: number;
  fleet?: number;
  line?: string;
  remove?: boolean;
}

const move: fc.Arbitrary<Move> = fc.oneof(
  fc.record({ robot: fc.nat(15), fleet: fc.nat(3) }),
  fc.record({ robot: fc.nat(15), line: fc.constantFrom("3", "4", "5") }),
  fc.record({ robot: fc.nat(15), remove: fc.constant(true) }),
);
const parts = fc.record(
  { site: fc.nat(1), fleet: fc.nat(3), line: fc.constantFrom("3", "4", "5"), robots: fc.uniqueArray(fc.nat(15), { minLength: 1 }) },
  { requiredKeys: [] },
);

test("a scheduled selection has the robots that match when it starts, however robots move before and after", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { sites, fleets, robots } = await ground(plane);
  const release = await plane.release();
  const states = robots.map((robot) => ({ ...robot, removed: false }));
  const apply = async ({ robot, fleet, line, remove }: Move): Promise<void> => {
    const state = states[robot];
    if (state === undefined || state.removed) return;
    const params = { id: state.id };
    if (fleet !== undefined) {
      await plane.api.updateRobot({ params, body: { fleet_id: fleets[fleet] ?? "" } });
      Object.assign(state, { fleet, site: fleet < 2 ? 0 : 1 });
    }
    if (line !== undefined) {
      await plane.api.updateRobot({ params, body: { labels: { line } } });
      state.line = line;
    }
    // Removes only a few, so that later runs still have robots.
    if (remove === true && states.filter(({ removed }) => removed).length < 4) {
      await plane.api.deleteRobot({ params });
      state.removed = true;
    }
  };
  await fc.assert(
    fc.asyncProperty(parts, fc.array(move, { maxLength: 6 }), fc.array(move, { maxLength: 4 }), async (chosen, before, after) => {
      const { site, fleet, line } = chosen;
      const ids = chosen.robots?.filter((n) => states[n]?.removed === false).map((n) => states[n]?.id ?? "");
      if (ids?.length === 0 || Object.keys(chosen).length === 0) return;
      if (site !== undefined && fleet !== undefined && site !== (fleet < 2 ? 0 : 1)) return;
      const target_selector = {
        ...(site === undefined ? {} : { site_id: sites[site] ?? "" }),
        ...(fleet === undefined ? {} : { fleet_id: fleets[fleet] ?? "" }),
        ...(line === undefined ? {} : { labels: { line } }),
        ...(ids === undefined ? {} : { robot_ids: ids }),
      };
      const scheduled_at = new Date(plane.clock.now().getTime() + 10_000).toISOString();
      const { id, counts } = await plane.deploy(release, { target_selector }, { scheduled_at });
      assert.equal(counts.total, 0);
      for (const one of before) await apply(one);
      const wanted = states.filter(
        (one) =>
          !one.removed &&
          (site === undefined || one.site === site) &&
          (fleet === undefined || one.fleet === fleet) &&
          (line === undefined || one.line === line) &&
          (ids === undefined || ids.includes(one.id)),
      );
      await plane.advance({ seconds: 11 });
      for (const one of after) await apply(one);
      assert.deepEqual(await targetsOf(plane, id), wanted.map((one) => one.id).toSorted());
    }),
    { numRuns: 20 },
  );
  await checkEngine(plane);
});

/** Crashes the transactions that write chunks after the first one, until `test_fault` is empty. */
const plantFault = async ({ db }: Harness): Promise<void> => {
  await db.run(sql`create table test_fault (id integer)`);
  await db.run(sql`insert into test_fault values (1)`);
  await db.run(sql`
    create function test_chunk() returns trigger language plpgsql security definer as $$ begin
      if exists (select 1 from test_fault) and (select count(*) from added) > 1 and (select count(*) from deployment_target) > 2000 then perform pg_terminate_backend(pg_backend_pid()); end if;
      return null; end $$`);
  await db.run(
    sql`create trigger test_chunk after insert on deployment_target referencing new table as added for each statement execute function test_chunk()`,
  );
};

test("a selection of 5,000 robots keeps the robots of its start over crashes and changed labels", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, other] = [await plane.fleet(), await plane.fleet()];
  await seedRobots(plane, fleet_id, 6_000);
  await plane.db.run(sql`update robot set labels = '{"line": "3"}' where id <= ${`rob_z${"5000".padStart(25, "0")}`} and id like 'rob_z%'`);
  const matching = await plane.db.many(sql(targetRow)`select id as robot_id from robot where labels ->> 'line' = '3' order by id`);
  await plantFault(plane);
  const created = await plane.deploy(await plane.release(), { target_selector: { labels: { line: "3" } } });
  assert.deepEqual([created.status, created.counts.total], ["queued", 5_000]);
  await plane.advance({ seconds: 10 });
  assert.equal((await targetsOf(plane, created.id)).length, 2_000);
  const late = matching.slice(3_000, 3_500).map(({ robot_id }) => robot_id);
  await plane.db.run(sql`update robot set labels = '{}', fleet_id = ${other} where id = any(${list(late)}::text[])`);
  await plane.db.run(sql`update robot set labels = '{"line": "3"}' where labels = '{}' and not id = any(${list(late)}::text[])`);
  await plane.restart();
  await plane.db.run(sql`delete from test_fault`);
  await plane.advance({ seconds: 10 });
  assert.deepEqual(
    await targetsOf(plane, created.id),
    matching.map(({ robot_id }) => robot_id),
  );
  const kept = await plane.db.many(sql(targetRow)`select id as robot_id from deployment where fan_out_robots is not null`);
  assert.deepEqual(kept, [], "the stored robots are deleted");
  await checkCounters(plane);
});

test("cancelling a deployment during its fan-out cancels the target of each selected robot once", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  await seedRobots(plane, fleet_id, 5_000);
  const matching = await plane.db.many(sql(targetRow)`select id as robot_id from robot order by id`);
  await plantFault(plane);
  const { id } = await plane.deploy(await plane.release(), { target_selector: { fleet_id } });
  await plane.api.cancelDeployment({ params: { id } });
  await plane.advance({ seconds: 30 });
  const { counts } = await plane.deployment(id);
  assert.deepEqual([counts.total, counts.cancelled], [5_000, 2_000]);
  await plane.db.run(sql`delete from test_fault`);
  await plane.advance({ minutes: 5 });
  const ended = await plane.deployment(id);
  assert.deepEqual([ended.status, ended.counts.cancelled], ["cancelled", 5_000]);
  assert.deepEqual(
    await targetsOf(plane, id),
    matching.map(({ robot_id }) => robot_id),
  );
  await checkCounters(plane);
});
