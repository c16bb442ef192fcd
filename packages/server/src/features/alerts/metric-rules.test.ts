import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeChunk } from "@roamfleet/protocol/link";
import type { AlertRule, AlertRuleTest, Incident, IncidentMember } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { storeSamples } from "../metrics/index.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { startAlertPlane } from "./testing/alert-plane.ts";

const TIMEOUT = { timeout: 120_000 };

async function start(robots: number) {
  const it = await startAlertPlane();
  const seeded = await it.robots(robots);
  const ids = seeded.map(({ robot_id }) => robot_id) as [string, string, string];
  let seq = 0;
  return {
    ...it,
    ids,
    /** Creates a rule of severity warning without a duration. */
    rule: async (condition: object, more: object = {}) =>
      (await it.call<AlertRule>("POST", "/api/alert-rules", { name: JSON.stringify(condition), condition, severity: "warning", ...more }))
        .body.data,
    /** Stores samples of a metric, ten seconds apart; the last is `ago_seconds` old. */
    async store(robot_id: string, name: string, values: readonly number[], { labels = {}, ago_seconds = 0, org_id = it.org_id } = {}) {
      const end = it.clock.now().getTime() - ago_seconds * 1_000;
      const times = values.map((_, i) => end - (values.length - 1 - i) * 10_000);
      seq += 1;
      const chunk = encodeChunk([{ name, labels, times, values: [...values] }]);
      await storeSamples(it.plane, org_id, robot_id, { outbox_id: `spool-${robot_id}`, seq, chunk });
    },
    /** Returns the robots of unresolved incidents of a rule. */
    async matching({ id }: AlertRule): Promise<string[]> {
      const incidents = (await it.items<Incident>("/api/incidents")).filter((one) => one.rule_id === id && one.status !== "resolved");
      const members = await Promise.all(incidents.map((one) => it.items<IncidentMember>(`/api/incidents/${one.id}/members`)));
      return members
        .flat()
        .filter(({ left_at }) => left_at === null)
        .map(({ subject_id }) => subject_id)
        .toSorted();
    },
    [Symbol.asyncDispose]: () => it[Symbol.asyncDispose](),
  };
}

test("metric rules match robots above, below and rising faster than a limit, until their values are old", TIMEOUT, async () => {
  await using it = await start(3);
  const [high, low, quiet] = it.ids;
  const above = await it.rule({ type: "metric_above", metric: "memory", threshold: 90 });
  const below = await it.rule({ type: "metric_below", metric: "memory", threshold: 10 });
  const rising = await it.rule({ type: "metric_rate_above", metric: "errors_total", threshold: 1 });
  await it.store(high, "memory", [100, 100]);
  await it.store(low, "memory", [5, 7]);
  await it.store(quiet, "memory", [50, 91, 50]);
  // The counter begins again at 0: it rises by 20 and by 30 in 20 s.
  await it.store(quiet, "errors_total", [100, 110, 10]);
  await it.store(high, "errors_total", [100, 110, 20]);
  await it.clock.advance({ seconds: 30 });
  assert.deepEqual([await it.matching(above), await it.matching(below), await it.matching(rising)], [[high], [low], [high]]);
  await it.store(high, "memory", [84, 84]);
  await it.clock.advance({ minutes: 30 });
  assert.deepEqual([await it.matching(above), await it.matching(below)], [[high], [low]], "the mean of five minutes is still above");
  await it.store(high, "memory", [80, 80]);
  await it.clock.advance({ minutes: 5 });
  assert.deepEqual([await it.matching(above), await it.matching(below)], [[], [low]]);
  await it.clock.advance({ minutes: 40 });
  assert.deepEqual(await it.matching(below), [], "the value is older than an hour");
});

test(
  "a metric rule uses the mean of its minutes over several chunks, of the series with its labels, and ignores late chunks",
  TIMEOUT,
  async () => {
    await using it = await start(2);
    const [robot] = it.ids;
    const rule = await it.rule({ type: "metric_above", metric: "disk", metric_labels: { mount: "/data" }, threshold: 50, minutes: 10 });
    await it.store(robot, "disk", [99], { labels: { mount: "/" } });
    await it.store(robot, "disk", [10], { labels: { mount: "/data" } });
    await it.clock.advance({ minutes: 2 });
    await it.store(robot, "disk", [80], { labels: { mount: "/data", kind: "ssd" } });
    await it.clock.advance({ seconds: 20 });
    assert.deepEqual(await it.matching(rule), [robot], "the highest of two series");
    await it.clock.advance({ minutes: 9 });
    await it.store(robot, "disk", [10, 10], { labels: { mount: "/data", kind: "ssd" } });
    await it.clock.advance({ minutes: 5 });
    assert.deepEqual(await it.matching(rule), [], "the mean of 80, 10 and 10 is below");
    await it.store(robot, "disk", [99, 99], { labels: { mount: "/data" }, ago_seconds: 1_200 });
    await it.clock.advance({ seconds: 20 });
    assert.deepEqual(await it.matching(rule), []);
  },
);

test("a damaged stored chunk does not hide the other chunks of the minutes of a rule", TIMEOUT, async () => {
  await using it = await start(1);
  const [robot] = it.ids;
  const rule = await it.rule({ type: "metric_above", metric: "load", threshold: 50, minutes: 10 });
  await it.store(robot, "load", [99], { ago_seconds: 120 });
  await it.store(robot, "load", [99], { ago_seconds: 60 });
  await it.db.run(sql`update metric_chunk set chunk = '\\x00'::bytea where org_id = ${it.org_id} and robot_id = ${robot} and number = 1`);
  await it.store(robot, "load", [10]);
  await it.clock.advance({ seconds: 20 });
  assert.deepEqual(await it.matching(rule), [robot], "the mean of 99 and 10 is above");
});

test("metric_absent matches robots without samples once the metric was watched for its minutes", TIMEOUT, async () => {
  await using it = await start(2);
  const [sending, silent] = it.ids;
  const condition = { type: "metric_absent", metric: "heartbeat", minutes: 20 };
  const rule = await it.rule(condition);
  for (let i = 0; i < 4; i += 1) {
    await it.store(sending, "heartbeat", [1]);
    assert.deepEqual(await it.matching(rule), i < 3 ? [] : [silent].toSorted());
    await it.clock.advance({ minutes: i < 2 ? 9 : 4 });
  }
  const tried = await it.call<AlertRuleTest>("POST", `/api/alert-rules/${rule.id}/test`, {});
  assert.deepEqual([tried.body.data.match_count, tried.body.data.past], [1, null]);
  await it.clock.advance({ minutes: 25 });
  assert.deepEqual(await it.matching(rule), [sending, silent].toSorted());
});

test("values are computed only for metrics of enabled rules of the same org", TIMEOUT, async () => {
  await using it = await start(1);
  const [robot] = it.ids;
  const condition = { type: "metric_above", metric: "memory", threshold: 90 };
  const rule = await it.rule(condition);
  const { org_id, token } = await it.rig.org({ role: "admin" });
  const other = await seedRobot(it.plane, org_id);
  await it.store(other.robot_id, "memory", [99], { org_id });
  await it.call("PATCH", `/api/alert-rules/${rule.id}`, { enabled: false });
  await it.store(robot, "memory", [99]);
  await it.call("PATCH", `/api/alert-rules/${rule.id}`, { enabled: true });
  await it.clock.advance({ seconds: 30 });
  assert.deepEqual([await it.matching(rule), await it.items("/api/incidents", token)], [[], []]);
  await it.store(robot, "memory", [99]);
  await it.clock.advance({ seconds: 30 });
  assert.deepEqual(await it.matching(rule), [robot]);
  await it.call("DELETE", `/api/alert-rules/${rule.id}`);
  await it.store(robot, "memory", [99]);
});

test("a metric rule without its parameters is refused", TIMEOUT, async () => {
  await using it = await start(1);
  for (const [condition, message] of [
    [{ type: "metric_above", threshold: 1 }, /needs metric/],
    [{ type: "metric_above", metric: "memory" }, /needs threshold/],
    [{ type: "metric_below", metric: "memory", threshold: 1, minutes: 61 }, /at most 60 minutes/],
    [{ type: "metric_absent", metric: "memory", threshold: 1 }, /no parameter threshold/],
    [{ type: "robot_offline", metric: "memory" }, /no parameter metric/],
  ] as const) {
    const { status, body } = await it.call("POST", "/api/alert-rules", { name: "Wrong", severity: "info", condition });
    assert.equal(status, 400);
    assert.match(body.error.message, message);
  }
});
