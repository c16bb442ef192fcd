import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { JsonValue } from "@roamfleet/protocol";
import { httpRequestText, linkChallengeText, type SignedRequest } from "@roamfleet/protocol/link";
import type { Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import { type Caller, SYSTEM } from "../../kernel/caller.ts";
import { int, row, sql, text } from "../../kernel/sql.ts";
import type { ExpectedChallenge, Session } from "../../link/index.ts";
import { enrollmentRoutes } from "../enrollment/index.ts";
import { fleetRoutes } from "../fleets/index.ts";
import { siteRoutes } from "../sites/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import {
  CHALLENGE,
  enrollRobot,
  type FakeSession,
  fakeSession,
  helloOf,
  makePlace,
  newIdentity,
  newTpmIdentity,
  signedHello,
  signText,
} from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { timelineRoutes } from "../timeline/index.ts";
import {
  authenticateRobot,
  closeRemovedRobots,
  compareLinks,
  createAdmission,
  flushSeen,
  robotConnected,
  robotDisconnected,
  robotRoutes,
  sweepDeadNodes,
} from "./index.ts";
import { removeRobot } from "./remove.ts";
import { giveRobotKey, NONCES_MAX } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };

async function withRobot(newKey = newIdentity) {
  const sessions = new Map<string, Session>();
  const it = await startFeaturePlane([siteRoutes, fleetRoutes, enrollmentRoutes, robotRoutes, timelineRoutes], { sessions });
  const { token, org_id } = await it.org();
  const place = await makePlace(it, token);
  const { robot_id, identity } = await enrollRobot(it, place, {}, newKey());
  const robot = async () => (await it.call<{ data: Robot }>("GET", `/api/robots/${robot_id}`, { token })).body.data;
  const timeline = async () => {
    const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${robot_id}/timeline`, { token })).body;
    return items.toReversed().filter(({ kind }) => kind !== "robot.enrolled");
  };
  const kinds = async () => (await timeline()).map(({ kind }) => kind);
  const session = (name: string, extra: Parameters<typeof helloOf>[1] = {}) => {
    const made = fakeSession(name, org_id, helloOf(robot_id, extra));
    sessions.set(robot_id, made);
    return made;
  };
  return { it, token, org_id, place, robot_id, identity, robot, timeline, kinds, session, sessions };
}

const position = (value: number) => (_db: unknown, _org_id: string, outboxes: readonly unknown[]) =>
  Promise.resolve(outboxes.map(() => value));

test("admits a robot that signs with its enrolled key, and returns its acknowledged positions", TIMEOUT, async () => {
  const { it, org_id, robot_id, identity } = await withRobot();
  await using _ = it;
  await it.plane.db.run(sql`
    insert into robot_desired (org_id, robot_id, outbox_id, outbox_seq, updated_at) values (${org_id}, ${robot_id}, 'outbox-1', 41, ${it.clock.now()})`);
  const hello = signedHello(identity, robot_id, "nonce");
  const public_key = Buffer.from(identity.public_key, "base64");
  assert.deepEqual(await createAdmission(it.plane, position(7))(hello, CHALLENGE, "192.0.2.1"), {
    admitted: true,
    org_id,
    acked_seq: 41,
    acked_log_seq: 7,
    public_key,
  });
  const other = await createAdmission(it.plane, position(0))({ ...hello, outbox_id: "outbox-2" }, CHALLENGE, "192.0.2.1");
  assert.deepEqual(other, { admitted: true, org_id, acked_seq: 0, acked_log_seq: 0, public_key });
});

for (const newKey of [newIdentity, newTpmIdentity])
  test(
    `refuses unknown and decommissioned robots, and signatures for another nonce, host, key or channel (${newKey.name})`,
    TIMEOUT,
    async () => {
      const { it, token, robot_id, identity } = await withRobot(newKey);
      await using _ = it;
      const code = async (hello: Parameters<ReturnType<typeof createAdmission>>[0], expected: Partial<ExpectedChallenge> = {}) => {
        const admission = await createAdmission(it.plane, position(0))(hello, { ...CHALLENGE, ...expected }, "192.0.2.1");
        return admission.admitted ? "admitted" : admission.code;
      };
      const good = signedHello(identity, robot_id, "nonce");
      assert.equal(await code(signedHello(identity, "rob_gone", "nonce")), "unknown_robot");
      assert.equal(await code(good, { nonce: "another nonce" }), "bad_signature");
      for (const other of [newIdentity(), newTpmIdentity()])
        assert.equal(await code(signedHello(other, robot_id, "nonce")), "bad_signature");
      assert.equal(await code(good, { host: "evil.test" }), "bad_signature", "signed for another server");
      assert.equal(await code(good, { channel: "the channel of this server" }), "bad_signature", "signed without a channel");
      assert.equal(await code({ ...good, channel: "a channel" }), "bad_signature", "the channel is not what was signed");
      const bound = { signature: signText(identity, linkChallengeText(robot_id, { ...CHALLENGE, channel: "one" })), channel: "one" };
      assert.equal(await code({ ...good, ...bound }, { channel: "one" }), "admitted");
      assert.equal(await code({ ...good, ...bound }, { channel: "two" }), "bad_signature", "relayed by another server");
      assert.equal(await code({ ...good, ...bound }), "bad_signature", "signed for TLS, and relayed without");
      assert.equal(await code({ ...good, ...bound }, { channel: undefined }), "admitted", "behind a proxy that ends TLS");
      assert.equal(await code(good, { channel: "", is_tls: true }), "bad_signature", "TLS below 1.3 has no channel to sign for");
      for (const signature of ["", "x", "!".repeat(86), Buffer.alloc(64).toString("base64"), Buffer.alloc(63).toString("base64")]) {
        assert.equal(await code({ ...good, signature }), "bad_signature", signature);
      }
      assert.equal(await code(good), "admitted");
      await it.call("DELETE", `/api/robots/${robot_id}`, { token });
      assert.equal(await code(good), "decommissioned");
      assert.equal(await code({ ...good, signature: "" }), "bad_signature");
    },
  );

test("a robot with a key of the type that TPMs support enrolls, connects and sends requests", TIMEOUT, async () => {
  const { it, robot_id, identity, robot } = await withRobot(newTpmIdentity);
  await using _ = it;
  assert.equal((await robot()).public_key_type, "ecdsa_p256");
  const admission = await createAdmission(it.plane, position(0))(signedHello(identity, robot_id, "nonce"), CHALLENGE, "192.0.2.1");
  assert.equal(admission.admitted, true);
  const request = { host: "fleet.test", channel: "", method: "GET", path: "/agent/artifacts/x", at: 1, nonce: "A".repeat(22) };
  const signature = signText(identity, httpRequestText(robot_id, request));
  assert.equal((await authenticateRobot(it.plane, robot_id, request, signature)).robot_id, robot_id);
  await assert.rejects(authenticateRobot(it.plane, robot_id, { ...request, path: "/agent/artifacts/y" }, signature), {
    code: "unauthorized",
  });
});

test("the refusal of a signature names the difference in host or TLS channel", TIMEOUT, async () => {
  const { it, robot_id, identity } = await withRobot();
  await using _ = it;
  const good = signedHello(identity, robot_id, "nonce");
  for (const [expected, expected_message] of [
    [{ host: "inner.test:7600" }, /a host other than inner\.test:7600/],
    [{ channel: "this connection's" }, /another TLS channel .*--behind-proxy/],
    [{ channel: "", is_tls: true }, /TLS 1\.3 is required/],
  ] as const) {
    const admission = await createAdmission(it.plane, position(0))(good, { ...CHALLENGE, ...expected }, "192.0.2.1");
    assert.match(admission.admitted ? "" : admission.message, expected_message);
  }
});

test("refuses a signature for another host name, and names the setting to change", TIMEOUT, async () => {
  const { it, robot_id, identity } = await withRobot();
  await using _ = it;
  const host = "relay.test:443";
  const hello = signedHello(identity, robot_id, "nonce", {}, host);
  const expected_message = /host relay\.test:443, and this server answers to fleet\.test, .*--host-name/;
  const admission = await createAdmission(it.plane, position(0))(hello, { ...CHALLENGE, host }, "192.0.2.1");
  assert.deepEqual([admission.admitted, "code" in admission && admission.code], [false, "wrong_host"]);
  assert.match("message" in admission ? admission.message : "", expected_message);
  const request = { host, channel: "", method: "GET", path: "/agent/artifacts/aa", at: 1, nonce: "nonce-of-16-chars" };
  const signature = signText(identity, httpRequestText(robot_id, request));
  await assert.rejects(authenticateRobot(it.plane, robot_id, request, signature), { code: "unauthorized", message: expected_message });
  // The refused request did not use up the nonce. The server checks the host of the request, whatever the robot claims.
  const own = { ...request, host: CHALLENGE.host };
  await authenticateRobot(it.plane, robot_id, own, signText(identity, httpRequestText(robot_id, own)));
  await assert.rejects(authenticateRobot(it.plane, robot_id, own, signature), { message: "the robot's signature is not valid" });
});

test("returns 401 for a request with a wrong or reused signature, or by a decommissioned robot", TIMEOUT, async () => {
  const { it, token, org_id, robot_id, identity } = await withRobot();
  await using _ = it;
  const request = (more: Partial<SignedRequest> = {}): SignedRequest => ({
    host: "fleet.test",
    channel: "",
    method: "GET",
    path: "/agent/artifacts/aa",
    at: 1,
    nonce: "nonce-of-16-chars",
    ...more,
  });
  const signature = signText(identity, httpRequestText(robot_id, request()));
  const caller = await authenticateRobot(it.plane, robot_id, request(), signature);
  assert.deepEqual([caller.org_id, caller.robot_id], [org_id, robot_id]);
  const refused = { code: "unauthorized", message: "the robot's signature is not valid" };
  for (const other of [
    { path: "/agent/artifacts/bb" },
    { host: "other.test" },
    { method: "POST" },
    { at: 2 },
    { nonce: "another-one-of-them" },
  ])
    await assert.rejects(authenticateRobot(it.plane, robot_id, request(other), signature), refused, JSON.stringify(other));
  await assert.rejects(authenticateRobot(it.plane, "rob_gone", request(), signature), refused);
  // A signed request is accepted only once.
  await assert.rejects(authenticateRobot(it.plane, robot_id, request(), signature), {
    message: /was used before/,
    detail: { known: true },
  });
  await it.call("DELETE", `/api/robots/${robot_id}`, { token });
  await assert.rejects(authenticateRobot(it.plane, robot_id, request(), signature), refused);
});

test("returns 429 when a robot exceeds its quota of requests in ten minutes", TIMEOUT, async () => {
  const { it, org_id, robot_id, identity } = await withRobot();
  await using _ = it;
  const request = { host: "fleet.test", channel: "", method: "GET", path: "/agent/artifacts/aa", at: 1, nonce: "nonce-of-16-chars" };
  const signature = signText(identity, httpRequestText(robot_id, request));
  await it.plane.db.run(sql`
    insert into robot_request (org_id, robot_id, nonce, expires_at)
    select ${org_id}, ${robot_id}, 'used-' || i, now() + interval '10 minutes' from generate_series(1, ${NONCES_MAX}) as i`);
  await assert.rejects(authenticateRobot(it.plane, robot_id, request, signature), { status: 429, headers: { "retry-after": "60" } });
  await assert.rejects(authenticateRobot(it.plane, robot_id, request, "wrong"), { code: "unauthorized" });
  await it.plane.db.run(sql`delete from robot_request where org_id = ${org_id} and nonce like 'used-%'`);
  assert.equal((await authenticateRobot(it.plane, robot_id, request, signature)).robot_id, robot_id);
});

test("a robot is online from connect to disconnect, and its timeline has both", TIMEOUT, async () => {
  const { it, robot, timeline, session } = await withRobot();
  await using _ = it;
  const link = session("sess_1", { agent_version: "0.2.0" });
  await robotConnected(it.plane, link);
  const online = await robot();
  assert.deepEqual(
    [online.status, online.agent_version, online.platform?.hostname, online.last_seen_at],
    ["online", "0.2.0", "arm-7", "2030-01-01T00:00:00.000Z"],
  );
  await robotDisconnected(it.plane, link, "no heartbeat received");
  assert.equal((await robot()).status, "offline");
  const [connected, disconnected, ...more] = await timeline();
  assert.deepEqual([connected?.kind, connected?.data["session_id"]], ["robot.connected", "sess_1"]);
  assert.deepEqual([disconnected?.kind, disconnected?.data["reason"], more], ["robot.disconnected", "no heartbeat received", []]);
});

test("the disconnect of a replaced link changes nothing, and no duplicate is reported", TIMEOUT, async () => {
  const { it, robot, kinds, session } = await withRobot();
  await using _ = it;
  const [older, newer] = [session("sess_1"), session("sess_2")];
  await robotConnected(it.plane, older);
  await robotConnected(it.plane, newer);
  await robotDisconnected(it.plane, older, "replaced by a newer link");
  assert.equal((await robot()).status, "online");
  assert.deepEqual(await kinds(), ["robot.connected", "robot.connected"]);
  await robotDisconnected(it.plane, newer, "closed");
  assert.equal((await robot()).status, "offline");
  assert.deepEqual(await kinds(), ["robot.connected", "robot.connected", "robot.disconnected"]);
});

test(
  "reports a duplicate identity if an older agent process reconnects after a newer one, but not if the agent restarts",
  TIMEOUT,
  async () => {
    const { it, timeline, session } = await withRobot();
    await using _ = it;
    const duplicates = async () => (await timeline()).filter(({ kind }) => kind === "robot.duplicate_identity");
    // The robot restarts twice while its older link still seems open.
    await robotConnected(it.plane, session("sess_1", { run_id: "run-a", boot_id: "boot-1" }));
    await robotConnected(it.plane, session("sess_2", { run_id: "run-b", boot_id: "boot-2" }));
    await robotConnected(it.plane, session("sess_3", { run_id: "run-b", boot_id: "boot-2" }));
    assert.deepEqual(await duplicates(), []);
    const back = session("sess_4", { run_id: "run-a", boot_id: "boot-1" });
    await robotConnected(it.plane, back);
    assert.deepEqual(
      (await duplicates()).map(({ data }) => [data["session_id"], data["run_id"], data["kept"]]),
      [
        ["sess_3", "run-b", false],
        ["sess_4", "run-a", true],
      ],
    );
    await robotDisconnected(it.plane, back, "closed");
    await robotConnected(it.plane, session("sess_5", { run_id: "run-c" }));
    assert.equal((await duplicates()).length, 2);
  },
);

test("quarantines a robot after three duplicate identities in ten minutes until an operator releases it", TIMEOUT, async () => {
  const { it, token, robot_id, identity, robot, kinds, session } = await withRobot();
  await using _ = it;
  const turn = (n: number) => session(`sess_${n}`, { run_id: n % 2 === 0 ? "run-a" : "run-b" });
  const admitted = async () => {
    const admission = await createAdmission(it.plane, position(0))(signedHello(identity, robot_id, "nonce"), CHALLENGE, "192.0.2.1");
    return admission.admitted ? "admitted" : admission.code;
  };
  let requests = 0;
  const request = () => {
    const signed = { host: "fleet.test", channel: "", method: "GET", path: "/x", at: 1, nonce: `nonce-${(requests += 1)}` };
    return authenticateRobot(it.plane, robot_id, signed, signText(identity, httpRequestText(robot_id, signed)));
  };
  // The third duplicate comes more than ten minutes after the first.
  for (const n of [0, 1, 2, 3]) await robotConnected(it.plane, turn(n));
  await it.clock.advance({ minutes: 11 });
  await robotConnected(it.plane, turn(4));
  assert.equal((await robot()).held_at, null);
  await robotConnected(it.plane, turn(5));
  assert.equal((await robot()).held_at, null);
  const last = turn(6);
  await robotConnected(it.plane, last);
  assert.equal((await robot()).held_at, it.clock.now().toISOString());
  assert.equal(last.closed?.code, 4404);
  assert.equal((await kinds()).at(-1), "robot.held");
  assert.equal(await admitted(), "held");
  await assert.rejects(request(), { status: 403 });
  const late = turn(7);
  await robotConnected(it.plane, late);
  assert.equal(late.closed?.code, 4404);

  const release = () => it.call<{ data: Robot }>("POST", `/api/robots/${robot_id}/release-hold`, { token });
  assert.deepEqual([(await release()).body.data.held_at, (await release()).status], [null, 200]);
  assert.equal((await kinds()).filter((kind) => kind === "robot.released").length, 1);
  assert.equal(await admitted(), "admitted");
  assert.equal((await request()).robot_id, robot_id);
  await robotConnected(it.plane, turn(8));
  await robotConnected(it.plane, turn(9));
  assert.equal((await kinds()).filter((kind) => kind === "robot.duplicate_identity").length, 10);
});

test("a link that closes while its connect is written leaves the robot offline", TIMEOUT, async () => {
  const { it, robot, kinds, session } = await withRobot();
  await using _ = it;
  const link = session("sess_1");
  await Promise.all([robotConnected(it.plane, link), robotDisconnected(it.plane, link, "closed")]);
  assert.equal((await robot()).status, "offline");
  assert.deepEqual(await kinds(), ["robot.connected", "robot.disconnected"]);
});

test("the robot's row contains the last link after many concurrent connects and disconnects", TIMEOUT, async () => {
  const { it, org_id, robot_id, robot, session } = await withRobot();
  await using _ = it;
  const links = Array.from({ length: 20 }, (_unused, i) => session(`sess_${i}`));
  await Promise.all(
    links.flatMap((link, i) => [
      robotConnected(it.plane, link),
      ...(i === 0 ? [] : [robotDisconnected(it.plane, links[i - 1] as Session, "replaced by a newer link")]),
    ]),
  );
  assert.equal((await robot()).status, "online");
  assert.deepEqual(await it.plane.db.many(sql`select session_id from robot where org_id = ${org_id} and id = ${robot_id}`), [
    { session_id: "sess_19" },
  ]);
});

test("disconnects a robot that was decommissioned while it connected", TIMEOUT, async () => {
  const { it, token, robot_id, robot, kinds, session } = await withRobot();
  await using _ = it;
  await it.call("DELETE", `/api/robots/${robot_id}`, { token });
  const link = session("sess_1");
  await robotConnected(it.plane, link);
  assert.deepEqual(link.closed, { code: 4404, reason: "robot removed" });
  assert.equal((await robot()).status, "decommissioned");
  await robotDisconnected(it.plane, link, "robot removed");
  assert.deepEqual(await kinds(), ["robot.decommissioned"]);
});

test("writes last_seen_at of many robots in one statement, and never decreases it", TIMEOUT, async () => {
  const { it, token, org_id, place, robot_id, robot } = await withRobot();
  await using _ = it;
  const second = await enrollRobot(it, place);
  const at = new Date("2030-01-01T00:00:09Z");
  const seen = new Map([robot_id, second.robot_id, "rob_gone"].map((id) => [id, { org_id, at }]));
  await flushSeen(it.plane, seen);
  assert.equal((await robot()).last_seen_at, "2030-01-01T00:00:09.000Z");
  await flushSeen(it.plane, new Map([[robot_id, { org_id, at: new Date("2030-01-01T00:00:01Z") }]]));
  assert.equal((await robot()).last_seen_at, "2030-01-01T00:00:09.000Z");
  assert.equal((await it.call<{ data: Robot }>("GET", `/api/robots/${second.robot_id}`, { token })).body.data.status, "offline");
  await flushSeen(it.plane, new Map());
});

const putNode = (it: FeaturePlane, id: string, epoch: number, is_over: boolean) =>
  it.plane.db.run(sql`
    insert into node (id, epoch, beat, is_over, started_at) values (${id}, ${epoch}, 1, ${is_over}, ${it.clock.now()})`);

test("marks robots of dead nodes and of earlier runs of this node offline", TIMEOUT, async () => {
  const { it, token, org_id, place, robot_id } = await withRobot();
  await using _ = it;
  await putNode(it, "node_dead", 1, true);
  await putNode(it, "node_alive", 5, false);
  const held = { node_dead: 1, node_alive: 5, node_alive_before: 4, node_gone: 1, node_a: 0 };
  const robots = new Map<string, string>();
  for (const [name, epoch] of Object.entries(held)) {
    const one = robots.size === 0 ? robot_id : (await enrollRobot(it, place)).robot_id;
    robots.set(name, one);
    const node_id = name.replace("_before", "");
    await it.plane.db.run(
      sql`update robot set node_id = ${node_id}, node_epoch = ${epoch}, last_seen_at = ${it.clock.now()} where org_id = ${org_id} and id = ${one}`,
    );
  }
  await sweepDeadNodes(it.plane);
  const statuses: Record<string, string> = {};
  for (const [name, id] of robots)
    statuses[name] = (await it.call<{ data: Robot }>("GET", `/api/robots/${id}`, { token })).body.data.status;
  assert.deepEqual(statuses, {
    node_dead: "offline",
    node_alive: "online",
    node_alive_before: "offline",
    node_gone: "offline",
    node_a: "offline",
  });
  const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${robot_id}/timeline`, { token })).body;
  assert.equal(items[0]?.kind, "robot.disconnected");
});

test("marks a robot of this node offline if it has no link", TIMEOUT, async () => {
  const { it, org_id, place, robot, session } = await withRobot();
  await using _ = it;
  await robotConnected(it.plane, session("sess_1"));
  const lost = await enrollRobot(it, place);
  await it.plane.db.run(sql`
    update robot set node_id = ${it.plane.node.id}, node_epoch = ${it.plane.node.epoch} where org_id = ${org_id} and id = ${lost.robot_id}`);
  await compareLinks(it.plane);
  assert.equal((await robot()).status, "online");
  assert.deepEqual(await it.plane.db.many(sql`select node_id from robot where org_id = ${org_id} and id = ${lost.robot_id}`), [
    { node_id: null },
  ]);
});

test("closes links of robots that the database shows as removed, replaced or connected elsewhere", TIMEOUT, async () => {
  const { it, token, org_id, place, sessions } = await withRobot();
  await using _ = it;
  const links: Record<string, FakeSession> = {};
  for (const name of ["stays", "marked_away", "elsewhere", "removed", "replaced"]) {
    const { robot_id } = await enrollRobot(it, place);
    const link = fakeSession(`sess_${name}`, org_id, helloOf(robot_id));
    sessions.set(robot_id, link);
    links[name] = link;
    await robotConnected(it.plane, link);
  }
  const set = (name: string, change: ReturnType<typeof sql>) =>
    it.plane.db.run(sql`update robot set ${change} where org_id = ${org_id} and id = ${links[name]?.robot_id ?? ""}`);
  await set("marked_away", sql`node_id = null, node_epoch = null, session_id = null`);
  await set("elsewhere", sql`node_id = 'node_b', node_epoch = 1, session_id = 'sess_b'`);
  // The message about the removal is lost.
  const mute = { ...it.plane.bus, publish: () => {} };
  await removeRobot({ ...it.plane, bus: mute }, it.plane.db.forOrg(org_id), { org_id, actor: SYSTEM } as Caller, links.removed!.robot_id);
  const { public_key } = newIdentity();
  const { enrollment_key_id } = await it.plane.db.one(
    sql(row({ enrollment_key_id: text }))`select enrollment_key_id from robot where id = ${links.replaced!.robot_id}`,
  );
  const key = { public_key: Buffer.from(public_key, "base64"), enrollment_key_id };
  await giveRobotKey(it.plane.db, {
    org_id,
    id: links.replaced!.robot_id,
    ...key,
    platform: undefined,
    approved: true,
    at: it.clock.now(),
  });
  // The sweep skips a link whose connect is not written yet.
  const coming = fakeSession("sess_coming", org_id, helloOf((await enrollRobot(it, place)).robot_id));
  sessions.set(coming.robot_id, coming);
  assert.equal(await compareLinks(it.plane), false);
  assert.deepEqual(Object.fromEntries(Object.entries({ ...links, coming }).map(([name, { closed }]) => [name, closed?.code])), {
    stays: undefined,
    marked_away: 1012,
    elsewhere: 1012,
    removed: 4404,
    replaced: 4404,
    coming: undefined,
  });
  assert.match(links.replaced?.closed?.reason ?? "", /another computer/);
  // A disconnect marks a replaced robot offline, but not a robot that is connected to another node.
  for (const name of ["elsewhere", "replaced"]) await robotDisconnected(it.plane, links[name]!, "closed");
  const status = async (name: string) =>
    (await it.call<{ data: Robot }>("GET", `/api/robots/${links[name]?.robot_id}`, { token })).body.data.status;
  assert.deepEqual([await status("elsewhere"), await status("replaced")], ["online", "offline"]);
});

test("marking the robots of dead nodes offline skips a robot that reconnects at that moment", TIMEOUT, async () => {
  const { it, org_id, robot, robot_id, session, kinds } = await withRobot();
  await using _ = it;
  await robotConnected(it.plane, session("sess_1"));
  // As after a process restart: neither a link nor a pending write is in memory.
  const plane = { ...it.plane, state: new PlaneState(), link: { ...it.plane.link, session: () => undefined } };
  let swept: Promise<unknown> | undefined;
  await it.plane.db.transaction(async (tx) => {
    await tx.run(sql`update robot set session_id = 'sess_2' where org_id = ${org_id} and id = ${robot_id}`);
    swept = compareLinks(plane);
    await untilOneWaits(it);
  });
  await swept;
  assert.equal((await robot()).status, "online");
  assert.deepEqual(await kinds(), ["robot.connected"]);
});

/** Resolves when a backend of this test's database waits for a row lock. */
async function untilOneWaits({ plane }: FeaturePlane): Promise<void> {
  await until("a backend to wait for a row", async () => {
    const { n } = await plane.db.one(sql(row({ n: int }))`
      select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
    return n > 0;
  });
}

const FORGED: [subject: string, message: (robot_id: string, org_id: string) => JsonValue][] = [
  ["rf.robots.removed", (robot_id, org_id) => ({ org_id, robot_id })],
  ["rf.robots.replaced", (robot_id) => ({ robot_id })],
  ["rf.robots.removed", () => null],
  ["rf.robots.removed", () => "text"],
  ["rf.robots.removed", () => ({ robot_id: { deep: [1] } })],
  ["rf.robots.replaced", () => [1, 2]],
];

test("a forged bus message cannot close the link of a robot", { timeout: 120_000 }, async () => {
  const sessions = new Map<string, Session>();
  await using rig = await startFeaturePlane([robotRoutes], { sessions });
  const { plane } = rig;
  const { org_id } = await rig.org();
  const unwatch = closeRemovedRobots(plane);
  const robot_ids: string[] = [];
  for (const name of ["kept", "removed"]) {
    const { robot_id } = await seedRobot(plane, org_id);
    robot_ids.push(robot_id);
    sessions.set(robot_id, fakeSession(`sess_${name}`, org_id, signedHello(newIdentity(), robot_id, "nonce")));
    await plane.db.run(sql`
      update robot set node_id = ${plane.node.id}, node_epoch = ${plane.node.epoch}, session_id = ${`sess_${name}`}
      where org_id = ${org_id} and id = ${robot_id}`);
  }
  const [kept = "", removed = ""] = robot_ids;
  const closed = (id: string) => (sessions.get(id) as ReturnType<typeof fakeSession>).closed;
  for (const [subject, message] of FORGED) plane.bus.publish(subject, message(kept, org_id));
  // Sent last: when this robot's link is closed, all forged messages have been handled.
  await plane.db.run(sql`update robot set decommissioned_at = ${rig.clock.now()} where org_id = ${org_id} and id = ${removed}`);
  plane.bus.publish("rf.robots.removed", { org_id, robot_id: removed });
  await until("the link of the removed robot to be closed", () => closed(removed));
  assert.equal(closed(kept), undefined);
  unwatch();
});
