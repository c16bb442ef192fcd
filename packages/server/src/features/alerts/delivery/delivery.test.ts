import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery, NewChannel } from "@roamfleet/protocol/routes";
import { until } from "@roamfleet/clock/testing";
import { Webhook } from "standardwebhooks";
import { sql } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { alertRoutes, channelRoutes, createDefaultRules, dropDeliveries, startAlerts, startSender } from "../index.ts";
import { GIVE_UP_MS } from "./outbox.ts";
import { resultOf } from "./sender.ts";
import { startReceiver } from "./testing/receiver.ts";

const TIMEOUT = { timeout: 120_000 };

/** Starts a plane that evaluates alert rules and sends messages to receivers on this machine. */
async function start({ networks = ["127.0.0.0/8"] }: { networks?: string[] } = {}) {
  const rig = await startFeaturePlane([alertRoutes, channelRoutes], { settings: { alert_networks: networks } });
  const { plane, clock } = rig;
  const { db } = plane;
  const loops = [startAlerts(plane), startSender(plane)];
  return {
    rig,
    plane,
    clock,
    async org() {
      const org = await rig.org();
      await createDefaultRules(db, plane, org.org_id);
      return org;
    },
    async channel(token: string, url: string, more: object = {}): Promise<NewChannel> {
      const body = { name: url, kind: "webhook", url, ...more };
      const reply = await rig.call<{ data: NewChannel }>("POST", "/api/channels", { token, body });
      assert.equal(reply.status, 201);
      return reply.body.data;
    },
    async deliveries(token: string, { id }: { id: string }): Promise<Delivery[]> {
      return (await rig.call<{ items: Delivery[] }>("GET", `/api/channels/${id}/deliveries`, { token })).body.items;
    },
    setOnline: (org_id: string, online: boolean) =>
      db.run(sql`
        update robot set node_id = ${online ? "node_a" : null}, connected_at = coalesce(connected_at, ${clock.now()}) where org_id = ${org_id}`),
    /** Advances the clock until no message is pending. Requests end in real time, so it waits for them. */
    async delivered(token: string, channel: { id: string }): Promise<Delivery[]> {
      await until("the messages to be sent", async () => {
        await clock.advance({ seconds: 5 });
        return (await this.deliveries(token, channel)).every(({ status }) => status !== "pending");
      });
      return await this.deliveries(token, channel);
    },
    [Symbol.asyncDispose]: async () => {
      for (const loop of loops) await loop.stop();
      await rig[Symbol.asyncDispose]();
    },
  };
}

test("1,000 robots of a site that go offline and return are one opening and one resolution for each channel", TIMEOUT, async () => {
  await using it = await start();
  await using receiver = await startReceiver();
  const [mine, other] = [await it.org(), await it.org()];
  const channels = [await it.channel(mine.token, receiver.url("/a")), await it.channel(mine.token, receiver.url("/b"))];
  await it.channel(other.token, receiver.url("/other"));
  const first = await seedRobot(it.plane, mine.org_id);
  await it.plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, connected_at, node_id, created_at, updated_at)
    select r.org_id, r.id || n, r.name || n, r.site_id, r.fleet_id, convert_to(r.id || n, 'UTF8'), ${it.clock.now()}, 'node_a', r.created_at, r.updated_at
    from robot r cross join generate_series(1, 999) n where r.org_id = ${mine.org_id} and r.id = ${first.robot_id}`);
  await it.setOnline(mine.org_id, true);
  await it.clock.advance({ minutes: 1 });
  await it.setOnline(mine.org_id, false);
  await it.clock.advance({ minutes: 12 });
  await it.setOnline(mine.org_id, true);
  await it.clock.advance({ minutes: 5 });
  for (const channel of channels) {
    const sent = await it.delivered(mine.token, channel);
    assert.deepEqual(
      sent.map(({ kind, status, attempts, detail }) => [kind, status, attempts, detail]),
      [
        ["resolved", "delivered", 1, "status 204"],
        ["opened", "delivered", 1, "status 204"],
      ],
    );
    const got = receiver.got.filter(({ path }) => channel.name.endsWith(path));
    assert.deepEqual(
      got.map(({ headers }) => headers["webhook-id"]),
      sent.toReversed().map(({ id }) => id),
    );
    assert.ok(channel.signing_secret !== null);
    // The library checks the age of a message by its own clock, which is not simulated.
    const library = new Webhook(channel.signing_secret);
    for (const { headers, body } of got) {
      const at = new Date(Number(headers["webhook-timestamp"]) * 1_000);
      assert.equal(library.sign(String(headers["webhook-id"]), at, body), headers["webhook-signature"]);
    }
    const [opened] = got.map(({ body }) => JSON.parse(body) as { type: string; data: Record<string, unknown> });
    assert.deepEqual([opened?.type, opened?.data.title, opened?.data.member_count], ["incident.opened", "Robot offline", 1_000]);
  }
  assert.deepEqual([...new Set(receiver.got.map(({ path }) => path))].toSorted(), ["/a", "/b"]);
});

test("1,000 robots that flap for 10 minutes cause at most 10 messages", TIMEOUT, async () => {
  await using it = await start();
  await using receiver = await startReceiver();
  const { org_id, token } = await it.org();
  const channel = await it.channel(token, receiver.url("/"));
  const first = await seedRobot(it.plane, org_id);
  await it.plane.db.run(sql`update alert_rule set for_seconds = 0 where org_id = ${org_id}`);
  await it.plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    select r.org_id, r.id || n, r.name || n, r.site_id, r.fleet_id, convert_to(r.id || n, 'UTF8'), r.created_at, r.updated_at
    from robot r cross join generate_series(1, 999) n where r.org_id = ${org_id} and r.id = ${first.robot_id}`);
  for (let round = 0; round < 60; round += 1) {
    await it.setOnline(org_id, round % 2 === 1);
    await it.clock.advance({ seconds: 10 });
  }
  const sent = await it.delivered(token, channel);
  assert.ok(sent.length > 0 && sent.length <= 10, `${sent.length} messages`);
  assert.equal(receiver.got.length, sent.length);
});

test("retries with the same id after growing intervals, and gives up at the end", TIMEOUT, async () => {
  await using it = await start();
  const failing = { times: 5 };
  await using receiver = await startReceiver((_, response) => {
    failing.times -= 1;
    response.writeHead(failing.times >= 0 ? 500 : 200).end();
  });
  const { token } = await it.org();
  const channel = await it.channel(token, receiver.url("/"));
  const { body } = await it.rig.call<{ data: Delivery }>("POST", `/api/channels/${channel.id}/test`, { token });
  assert.deepEqual([body.data.status, body.data.kind, body.data.attempts], ["pending", "test", 0]);
  const [sent] = await it.delivered(token, channel);
  assert.deepEqual([sent?.status, sent?.attempts, sent?.detail, sent?.next_attempt_at], ["delivered", 6, "status 200", null]);
  assert.deepEqual(
    receiver.got.map(({ headers }) => headers["webhook-id"]),
    Array.from({ length: 6 }, () => body.data.id),
  );
  const times = receiver.got.map(({ headers }) => Number(headers["webhook-timestamp"]));
  const gaps = times.slice(1).map((at, i) => at - (times[i] ?? 0));
  assert.ok(
    gaps.every((gap, i) => gap >= 5 * 3 ** i),
    JSON.stringify(gaps),
  );
  // Sent again by a person, to a receiver that fails for more than a day.
  failing.times = 1_000;
  assert.equal((await it.rig.call("POST", `/api/deliveries/${body.data.id}/resend`, { token })).status, 200);
  assert.equal((await it.rig.call("POST", `/api/deliveries/${body.data.id}/resend`, { token })).status, 409);
  await until("an attempt", async () => (await it.deliveries(token, channel))[0]?.attempts === 7);
  await it.plane.db.run(
    sql`update alert_delivery set give_up_at = ${it.clock.now()}, next_attempt_at = ${it.clock.now()} where id = ${body.data.id}`,
  );
  await it.plane.db.run(sql`update alert_channel set due_at = ${it.clock.now()} where id = ${channel.id}`);
  const [failed] = await it.delivered(token, channel);
  assert.deepEqual([failed?.status, failed?.attempts, failed?.detail], ["failed", 8, "given up: status 500"]);
});

test("attempts go on for 24 hours, at most an hour apart", () => {
  const start_ms = Date.UTC(2030, 0, 1);
  let now = new Date(start_ms);
  const message = { id: "dlv_1", attempts: 0, give_up_at: new Date(start_ms + GIVE_UP_MS) };
  for (;;) {
    const { status, next_attempt_at } = resultOf(message, { delivered: false, detail: "status 500" }, now);
    if (next_attempt_at === null) {
      assert.equal(status, "failed");
      break;
    }
    message.attempts += 1;
    now = next_attempt_at;
  }
  const hours = (now.getTime() - start_ms) / 3_600_000;
  assert.ok(hours > 23 && hours <= 24, `${hours} h`);
  assert.equal(message.attempts, 29);
});

test("a receiver that hangs delays no other channel, and a resolution waits for its opening", TIMEOUT, async () => {
  await using it = await start();
  let hangs = true;
  await using receiver = await startReceiver(({ url }, response) => {
    if (url !== "/hangs" || !hangs) response.end();
  });
  const { org_id, token } = await it.org();
  const hanging = await it.channel(token, receiver.url("/hangs"));
  const healthy = await it.channel(token, receiver.url("/healthy"));
  await seedRobot(it.plane, org_id);
  await it.setOnline(org_id, false);
  await it.clock.advance({ minutes: 12 });
  const at = (path: string) => receiver.got.filter((one) => one.path === path);
  await until("both messages", () => at("/hangs").length > 0 && at("/healthy").length > 0);
  await it.setOnline(org_id, true);
  await it.clock.advance({ minutes: 5 });
  assert.deepEqual(
    (await it.delivered(token, healthy)).map(({ kind, status }) => [kind, status]),
    [
      ["resolved", "delivered"],
      ["opened", "delivered"],
    ],
  );
  assert.deepEqual(
    (await it.deliveries(token, hanging)).map(({ kind, status }) => [kind, status]),
    [
      ["resolved", "pending"],
      ["opened", "pending"],
    ],
  );
  assert.equal((await it.deliveries(token, hanging)).find(({ kind }) => kind === "resolved")?.attempts, 0);
  hangs = false;
  await it.delivered(token, hanging);
  const types = at("/hangs").map(({ body }) => (JSON.parse(body) as { type: string }).type);
  assert.equal(types.indexOf("incident.resolved"), types.length - 1);
});

test("a resolution by a person is reported, and finished messages are deleted when they are old", TIMEOUT, async () => {
  await using it = await start();
  await using receiver = await startReceiver();
  const { org_id, token } = await it.org();
  const channel = await it.channel(token, receiver.url("/"));
  const critical = await it.channel(token, receiver.url("/critical"), { routes: [{ severities: ["critical"] }] });
  const { robot_id } = await seedRobot(it.plane, org_id);
  await it.setOnline(org_id, false);
  await it.clock.advance({ minutes: 12 });
  const [opened] = await it.delivered(token, channel);
  assert.ok(opened !== undefined);
  const later = new Date(it.clock.now().getTime() + 1_000);
  await dropDeliveries(it.plane, later);
  assert.equal((await it.deliveries(token, channel)).length, 1);
  assert.equal((await it.rig.call("POST", `/api/incidents/${opened.incident_id}/resolve`, { token, body: {} })).status, 200);
  assert.deepEqual(
    (await it.delivered(token, channel)).map(({ kind, incident_id }) => [kind, incident_id]),
    [
      ["resolved", opened.incident_id],
      ["opened", opened.incident_id],
    ],
  );
  const robots = receiver.got.map(({ body }) => (JSON.parse(body) as { data: { robot: { id: string } | null } }).data.robot?.id);
  assert.deepEqual(robots, [robot_id, robot_id]);
  assert.deepEqual(await it.deliveries(token, critical), []);
  await dropDeliveries(it.plane, new Date(it.clock.now().getTime() + 1_000));
  assert.deepEqual(await it.deliveries(token, channel), []);
});

test("addresses that are not public are refused unless the operator allows them", TIMEOUT, async () => {
  await using it = await start({ networks: [] });
  await using receiver = await startReceiver();
  const { token } = await it.org();
  const channel = await it.channel(token, receiver.url("/services/secret"));
  await it.rig.call("POST", `/api/channels/${channel.id}/test`, { token });
  await until("an attempt", async () => (await it.deliveries(token, channel))[0]?.attempts === 1);
  const [refused] = await it.deliveries(token, channel);
  assert.deepEqual([refused?.status, refused?.detail], ["pending", "the address is not allowed"]);
  assert.deepEqual(receiver.got, []);
});
