import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Channel, Delivery, NewChannel } from "@roamfleet/protocol/routes";
import { row, sql, text } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { channelRoutes, startSender } from "../index.ts";
import { requestOf, testMessage } from "./message.ts";
import { isRouted } from "./outbox.ts";
import { startReceiver } from "./testing/receiver.ts";

const TIMEOUT = { timeout: 60_000 };
const SECRET = "T0PS3CRET";

test("no response and no row contains the URL, the keys or the signing secret of a channel", TIMEOUT, async () => {
  await using it = await startFeaturePlane([channelRoutes]);
  const { org_id, token } = await it.org();
  const call = <T>(method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: object) =>
    it.call<T>(method, `/api/channels${path}`, { token, ...(body === undefined ? {} : { body }) });
  const hook = await call<{ data: NewChannel }>("POST", "", { name: "hook", kind: "webhook", url: `https://hooks.test:8443/${SECRET}` });
  assert.equal(hook.status, 201);
  const { id, signing_secret, destination } = hook.body.data;
  assert.match(signing_secret ?? "", /^whsec_/);
  assert.equal(destination, "hooks.test:8443");
  const pager = await call<{ data: NewChannel }>("POST", "", { name: "pager", kind: "pagerduty", routing_key: SECRET });
  assert.deepEqual([pager.status, pager.body.data.destination, pager.body.data.signing_secret], [201, "PagerDuty", null]);
  const replies = [
    pager,
    await call("GET", ""),
    await call("GET", `/${id}`),
    await call("PATCH", `/${id}`, { name: "renamed", url: `https://other.test/${SECRET}` }),
    await call("PATCH", `/${id}`, { url: `ftp://other.test/${SECRET}` }),
    await call("PATCH", `/${id}`, { routing_key: SECRET }),
    await call("POST", `/${id}/test`),
    await call("GET", `/${id}/deliveries`),
  ];
  assert.deepEqual(
    replies.map(({ status }) => status),
    [201, 200, 200, 200, 400, 400, 200, 200],
  );
  const rowsRow = row({ content: text });
  const stored = await it.plane.db.many(sql(rowsRow)`
    select row_to_json(c)::text as content from alert_channel c where org_id = ${org_id}
    union all select row_to_json(d)::text from alert_delivery d where org_id = ${org_id}
    union all select row_to_json(a)::text from audit_entry a where org_id = ${org_id}`);
  const key = (signing_secret ?? "").slice("whsec_".length);
  for (const shown of [JSON.stringify(replies), JSON.stringify(stored)]) {
    assert.ok(!shown.includes(SECRET), shown);
    assert.ok(!shown.includes(key), shown);
  }
  assert.equal((await call<{ data: Channel }>("GET", `/${id}`)).body.data.destination, "other.test");
});

test("refuses what does not belong to the kind, unknown places, equal names and channels of other orgs", TIMEOUT, async () => {
  await using it = await startFeaturePlane([channelRoutes]);
  const [mine, other] = [await it.org(), await it.org()];
  const create = async (body: object, token = mine.token) =>
    await it.call<{ data: NewChannel; error: { message: string } }>("POST", "/api/channels", { token, body });
  const others_robot = await seedRobot(it.plane, other.org_id);
  const url = "https://hooks.test/";
  const cases = [
    [{ name: "a", kind: "webhook" }, 400],
    [{ name: "a", kind: "webhook", url: "file:///etc/passwd" }, 400],
    [{ name: "a", kind: "slack", url, routing_key: "k" }, 400],
    [{ name: "a", kind: "pagerduty", url }, 400],
    [{ name: "a", kind: "email", recipients: ["a@example.org"] }, 409],
    [{ name: "a", kind: "webhook", url, routes: [{ site_id: others_robot.site_id }] }, 404],
    [{ name: "a", kind: "webhook", url, routes: [{ fleet_id: others_robot.fleet_id }] }, 404],
    [{ name: "a", kind: "webhook", url, routes: [{ severities: ["critical"] }] }, 201],
    [{ name: "a", kind: "webhook", url }, 409],
  ] as const;
  for (const [body, status] of cases) assert.equal((await create(body)).status, status, JSON.stringify(body));
  const { id } = (await create({ name: "of another org", kind: "webhook", url }, other.token)).body.data;
  for (const [method, path] of [
    ["GET", ""],
    ["PATCH", ""],
    ["DELETE", ""],
    ["POST", "/test"],
    ["GET", "/deliveries"],
  ] as const) {
    const body = method === "PATCH" ? { body: { name: "b" } } : {};
    assert.equal((await it.call(method, `/api/channels/${id}${path}`, { token: mine.token, ...body })).status, 404, `${method} ${path}`);
  }
  await it.call("PATCH", `/api/channels/${id}`, { token: other.token, body: { enabled: false } });
  assert.equal((await it.call("POST", `/api/channels/${id}/test`, { token: other.token })).status, 409);
});

test("an org sends at most four messages at a time, and other orgs do not wait for it", TIMEOUT, async () => {
  await using it = await startFeaturePlane([channelRoutes], { settings: { alert_networks: ["127.0.0.0/8"] } });
  await using receiver = await startReceiver(({ url }, response) => {
    if (url === "/healthy") response.end();
  });
  const [hostile, other] = [await it.org(), await it.org()];
  const channel = async (token: string, path: string, name = path) => {
    const body = { name, kind: "webhook", url: receiver.url(path) };
    const { data } = (await it.call<{ data: NewChannel }>("POST", "/api/channels", { token, body })).body;
    await it.call("POST", `/api/channels/${data.id}/test`, { token });
    return data;
  };
  for (let i = 0; i < 10; i += 1) await channel(hostile.token, "/hangs", `hook ${i}`);
  const healthy = await channel(other.token, "/healthy");
  const sender = startSender(it.plane);
  await it.clock.advance({ seconds: 5 });
  const status = async () =>
    (await it.call<{ items: Delivery[] }>("GET", `/api/channels/${healthy.id}/deliveries`, { token: other.token })).body.items[0]?.status;
  await until("the message of the other org", async () => (await status()) === "delivered");
  await until("four requests", () => receiver.got.filter(({ path }) => path === "/hangs").length === 4);
  await it.clock.advance({ seconds: 4 });
  assert.equal(receiver.got.filter(({ path }) => path === "/hangs").length, 4);
  await sender.stop();
});

test("an incident matches a route if its severity, site and fleet do", () => {
  const incident = { severity: "warning" as const, site_id: "site_1", fleet_id: null };
  assert.equal(isRouted([], incident), true);
  assert.equal(isRouted([{ severities: ["critical"] }, { site_id: "site_1" }], incident), true);
  assert.equal(isRouted([{ severities: ["critical"], site_id: "site_1" }], incident), false);
  assert.equal(isRouted([{ fleet_id: "fleet_1" }], incident), false);
  assert.equal(isRouted([{ fleet_id: "fleet_1", severities: ["warning"] }], { ...incident, fleet_id: "fleet_1" }), true);
});

test("Slack gets escaped text, and PagerDuty one alert for each incident, which the resolution ends", () => {
  const site = { id: "site_1", name: "Berlin" };
  const base = testMessage(new Date("2030-01-01T00:00:00Z"));
  const data = { ...base.data, incident_id: "inc_1", title: "<!channel> & more", site, member_count: 3 };
  const opened = { ...base, type: "incident.opened" as const, data };
  assert.deepEqual(requestOf("slack", { url: "https://hooks.slack.test/x" }, { id: "dlv_1", message: opened }), {
    url: "https://hooks.slack.test/x",
    body: JSON.stringify({ text: "Opened: &lt;!channel&gt; &amp; more (info), 3 affected, Berlin" }),
  });
  const one = { ...opened, data: { ...data, title: "Offline", member_count: 1, robot: { id: "rob_1", name: "arm-01" } } };
  const { body: text } = requestOf("slack", { url: "https://hooks.slack.test/x" }, { id: "dlv_1", message: one });
  assert.equal(text, JSON.stringify({ text: "Opened: Offline (info), arm-01, Berlin" }));
  const events = [opened, { ...opened, type: "incident.resolved" as const }].map((message) => {
    const { url, body } = requestOf("pagerduty", { routing_key: "k" }, { id: "dlv_1", message });
    const { routing_key, event_action, dedup_key, payload } = JSON.parse(body) as Record<string, unknown> & {
      payload: { severity: string };
    };
    return [url, routing_key, event_action, dedup_key, payload.severity];
  });
  const [url, key] = ["https://events.pagerduty.com/v2/enqueue", "k"];
  assert.deepEqual(events, [
    [url, key, "trigger", "inc_1", "info"],
    [url, key, "resolve", "inc_1", "info"],
  ]);
});
