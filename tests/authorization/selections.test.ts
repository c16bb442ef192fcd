import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";
import { Http, type Reply } from "../spec/http.ts";

const LIMIT = { timeout: 300_000 };
const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());

/** Creates two sites, the first with two fleets, a robot with the label line=3 in each fleet, and a release. */
async function ground() {
  const org = await plane.org();
  const [site_a, site_b] = [await org.site(), await org.site()];
  const [a1, a2, b] = [await org.fleet({ site_id: site_a }), await org.fleet({ site_id: site_a }), await org.fleet({ site_id: site_b })];
  const enroll = async (fleet_id: string): Promise<string> =>
    (await org.enrollRobot({ fleet_id, online: false, labels: { line: "3" } })).id;
  const robots = { a1: await enroll(a1), a2: await enroll(a2), b: await enroll(b) };
  return { org, site_a, site_b, a1, a2, b, robots, release: (await org.release()).id };
}

/** Requests a deployment to a selection, and the same as a dry run and as a config deployment. The three must be answered alike. */
async function select(http: Http, release: string, target_selector: object): Promise<Reply> {
  const send = (path: string, body: object): Promise<Reply> => http.post(path, body, { "idempotency-key": randomUUID() });
  const config = await send("/api/configs/deployments", { target_selector });
  const dry = await send("/api/deployments", { release, target_selector, dry_run: true });
  const reply = await send("/api/deployments", { release, target_selector });
  if (reply.status === 201) assert.deepEqual([config.status, dry.status], [201, 200]);
  else assert.deepEqual([config.refusal, dry.refusal], [reply.refusal, reply.refusal]);
  return reply;
}

const targetsOf = async (reply: Reply): Promise<string[]> =>
  (
    await plane.db.many(sql(row({ robot_id: text }))`
      select robot_id from deployment_target where deployment_id = ${String(reply.data.id)} order by robot_id`)
  ).map(({ robot_id }) => robot_id);

const WHOLE_ORG = /^403 forbidden: this needs the role operator in the whole org/;

test("an operator of a site selects only robots of that site", LIMIT, async () => {
  const { org, site_a, site_b, a1, b, robots, release } = await ground();
  const http = new Http(plane, await org.token({ role: "operator", scopes: [{ site_id: site_a }] }));
  const labels = { line: "3" };
  assert.deepEqual(await targetsOf(await select(http, release, { site_id: site_a, labels })), [robots.a1, robots.a2].toSorted());
  assert.deepEqual(await targetsOf(await select(http, release, { fleet_id: a1 })), [robots.a1]);
  assert.deepEqual(await targetsOf(await select(http, release, { site_id: site_a, robot_ids: [robots.a2] })), [robots.a2]);
  assert.match((await select(http, release, { labels })).refusal, WHOLE_ORG);
  assert.match((await select(http, release, { robot_ids: [robots.a1] })).refusal, WHOLE_ORG);
  assert.match((await select(http, release, {})).refusal, WHOLE_ORG);
  assert.match((await select(http, release, { site_id: site_b, labels })).refusal, /^404 not_found: site/);
  assert.match((await select(http, release, { fleet_id: b })).refusal, /^404 not_found: fleet/);
  assert.match((await select(http, release, { site_id: site_a, fleet_id: b })).refusal, /^404 not_found: fleet/);
  assert.match((await select(http, release, { site_id: site_a, robot_ids: [robots.a1, robots.b] })).refusal, /^404 not_found: robot/);
});

test("an operator of a fleet selects only robots of that fleet", LIMIT, async () => {
  const { org, site_a, a1, a2, robots, release } = await ground();
  const http = new Http(plane, await org.token({ role: "operator", scopes: [{ fleet_id: a1 }] }));
  const narrowed = await select(http, release, { site_id: site_a, fleet_id: a1, labels: { line: "3" } });
  assert.deepEqual(await targetsOf(narrowed), [robots.a1]);
  assert.match((await select(http, release, { site_id: site_a })).refusal, /^403 forbidden/);
  assert.match((await select(http, release, { fleet_id: a2 })).refusal, /^404 not_found: fleet/);
  assert.match((await select(http, release, { fleet_id: a1, robot_ids: [robots.a2] })).refusal, /^404 not_found: robot/);
});

test("a selection is visible by the place that it names", LIMIT, async () => {
  const { org, site_a, site_b, a1, robots, release } = await ground();
  const everywhere = new Http(plane, org.admin_token);
  const of_site = String((await select(everywhere, release, { site_id: site_a })).data.id);
  const of_fleet = String((await select(everywhere, release, { fleet_id: a1, labels: { line: "3" } })).data.id);
  const of_org = String((await select(everywhere, release, { labels: { line: "3" } })).data.id);
  const sees = async (scope: { site_id: string } | { fleet_id: string }): Promise<string[]> => {
    const http = new Http(plane, await org.token({ role: "viewer", scopes: [scope] }));
    const listed = (await http.get("/api/deployments")).items.map(({ id }) => String(id));
    for (const id of [of_site, of_fleet, of_org])
      for (const path of ["", "/targets", "/events", "/waves"])
        assert.equal((await http.get(`/api/deployments/${id}${path}`)).status, listed.includes(id) ? 200 : 404, `${path} of ${id}`);
    const counts = (await http.get("/api/overview")).data.deployments as Record<string, number>;
    assert.equal(Number(counts["queued"]) + Number(counts["in_progress"]), listed.length, "the overview counts the same deployments");
    const report = (await http.get("/api/report")).data.open as { deployments: { items: { id: string; kind: string }[] } };
    assert.deepEqual(
      report.deployments.items.flatMap(({ id, kind }) => (kind === "release" ? [id] : [])).toSorted(),
      listed.toSorted(),
      "the report lists the same deployments",
    );
    const of_robot = await http.get(`/api/deployments?robot_id=${robots.a1}`);
    if (listed.length === 0) assert.equal(of_robot.status, 404);
    else
      assert.deepEqual(
        of_robot.items.map(({ id }) => String(id)),
        listed,
        "the list of a robot has the same deployments",
      );
    return listed.toSorted();
  };
  assert.deepEqual(await sees({ site_id: site_a }), [of_site, of_fleet].toSorted());
  assert.deepEqual(await sees({ fleet_id: a1 }), [of_fleet]);
  assert.deepEqual(await sees({ site_id: site_b }), []);
});

test("a selection of another org's objects is answered like missing ones, and reaches none of its robots", LIMIT, async () => {
  const own = await ground();
  const other = await ground();
  const http = new Http(plane, own.org.admin_token);
  const missing = (kind: string): string => `${kind}_${"0".repeat(26)}`;
  const words = (refusal: string): string => refusal.replaceAll(/\b(site|fleet|rob)_[0-9a-z]{26}\b/g, "ID");
  for (const [foreign, absent] of [
    [{ site_id: other.site_a }, { site_id: missing("site") }],
    [{ fleet_id: other.a1 }, { fleet_id: missing("fleet") }],
    [{ robot_ids: [other.robots.a1] }, { robot_ids: [missing("rob")] }],
    [{ robot_ids: [own.robots.a1, other.robots.a1] }, { robot_ids: [own.robots.a1, missing("rob")] }],
    [
      { site_id: own.site_a, fleet_id: other.a1 },
      { site_id: own.site_a, fleet_id: missing("fleet") },
    ],
  ] as const) {
    const reply = await select(http, own.release, foreign);
    assert.equal(reply.status, 404);
    assert.equal(words(reply.refusal), words((await select(http, own.release, absent)).refusal));
  }
  const by_label = await select(http, own.release, { labels: { line: "3" } });
  assert.deepEqual(await targetsOf(by_label), Object.values(own.robots).toSorted());
});

test("a scheduled selection ends if its creator loses the place before it starts", LIMIT, async () => {
  const { org, site_a, site_b, release } = await ground();
  const user = (
    await org.api.createUser({
      body: { email: `${randomUUID()}@example.org`, name: "Ada", role: "operator", scopes: [{ site_id: site_a }] },
    })
  ).data;
  const { token } = (await org.api.createToken({ body: { label: "Ada", role: "operator", user_id: user.id } })).data;
  const http = new Http(plane, token ?? "");
  const scheduled_at = new Date(plane.clock.now().getTime() + 3_600_000).toISOString();
  const body = { release, target_selector: { site_id: site_a }, scheduled_at };
  const { data } = await http.post("/api/deployments", body, { "idempotency-key": randomUUID() });
  assert.equal(data.status, "scheduled");
  await org.api.updateUser({ params: { id: user.id }, body: { grants: [{ role: "operator", scopes: [{ site_id: site_b }] }] } });
  await plane.until("the deployment to end", async () => {
    const { status, reason } = (await org.api.getDeployment({ params: { id: String(data.id) } })).data;
    return status === "cancelled" && reason === "scope_lost";
  });
});
