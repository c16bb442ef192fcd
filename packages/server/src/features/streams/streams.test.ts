import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { ingestLogs } from "../logs/index.ts";
import { ROBOT_REMOVED } from "../robots/index.ts";
import { flush, range, record, startRig } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };

test("a log viewer gets the last 100 stored records, and then each new one", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 70));
  await ingestLogs(it.plane, it.session, flush(71, 130));
  const viewer = it.view();
  assert.equal((await viewer.headers)["x-service-org-id"], it.org_id);
  await until("stored records", () => viewer.records.length === 100);
  assert.ok(it.sent.some((message) => message.type === "log_follow" && message.on));
  await ingestLogs(it.plane, it.session, flush(131, 140));
  await until("live records", () => viewer.records.length >= 110);
  assert.deepEqual(viewer.seqs, range(31, 140));
  assert.deepEqual(viewer.records.at(-1), { robot_id: it.robot_id, received_at: "2030-01-01T00:00:00.000Z", ...record(140) });
  viewer.ws.close();
  await until("the end of following", () => it.sent.some((message) => message.type === "log_follow" && !message.on));
});

test("a log stream has no gap and no duplicate between stored and live records", TIMEOUT, async () => {
  await using it = await startRig();
  let [seq, flushing] = [0, true];
  const robot = (async () => {
    while (flushing) {
      await ingestLogs(it.plane, it.session, flush(seq + 1, seq + 3));
      seq += 3;
    }
  })();
  const viewers = [];
  try {
    await until("some records", () => seq > 30);
    for (let i = 0; i < 15; i += 1) {
      const viewer = it.view();
      // More records than were stored when the viewer connected, so that live records follow.
      await until("live records", () => viewer.records.length > 160);
      viewer.ws.close();
      await viewer.closed;
      viewers.push(viewer);
    }
  } finally {
    flushing = false;
    await robot;
  }
  for (const { seqs } of viewers) assert.deepEqual(seqs, range(seqs[0] ?? 0, seqs.at(-1) ?? 0));
});

test("a log viewer that does not read loses records, which are reported as a gap", TIMEOUT, async () => {
  await using it = await startRig();
  const [slow, fast] = [it.view(), it.view()];
  await Promise.all([slow.headers, fast.headers]);
  await ingestLogs(it.plane, it.session, flush(1, 1));
  await until("both to follow", () => slow.records.length === 1 && fast.records.length === 1);
  slow.ws.pause();
  let seq = 1;
  const message = "x".repeat(16_000);
  // The kernel buffers some megabytes before the server's buffer is used.
  for (let i = 0; i < 30; i += 1) {
    await ingestLogs(it.plane, it.session, flush(seq + 1, seq + 50, { message }));
    seq += 50;
    await until("the fast one to keep up", () => fast.seqs.at(-1) === seq);
  }
  slow.ws.resume();
  const isGap = ({ source }: LogRecord): boolean => source === "roamfleet";
  // The server reports the gap even if no new record follows.
  await until("the gap", () => slow.records.some(isGap));
  await ingestLogs(it.plane, it.session, flush(seq + 1, seq + 1));
  seq += 1;
  await until("the record after the gap", () => slow.seqs.at(-1) === seq);
  assert.deepEqual(fast.seqs, range(1, seq));
  let expected = 1;
  for (const one of slow.records) {
    if (isGap(one)) {
      const { gap } = one.fields as { gap: { count: number; from_seq: number; to_seq: number } };
      assert.equal(gap.from_seq, expected);
      assert.equal(gap.count, gap.to_seq - gap.from_seq + 1);
      assert.deepEqual([one.level, one.seq, one.message], ["warn", gap.to_seq, `${gap.count} records dropped`]);
      expected = gap.to_seq + 1;
    } else {
      assert.equal(one.seq, expected);
      expected += 1;
    }
  }
  assert.equal(expected, seq + 1);
});

test("closes a log stream with 4409 after the stored records if the robot is not connected", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 5));
  const before = it.view();
  await until("stored records", () => before.records.length === 5);
  it.sessions.delete(it.robot_id);
  await it.rig.clock.advance({ seconds: 1 });
  assert.equal(await before.closed, "4409 agent offline");
  const after = it.view();
  assert.equal(await after.closed, "4409 agent offline");
  assert.deepEqual(after.seqs, range(1, 5));
  const shell = it.view(`/api/robots/${it.robot_id}/shell/ws?token=${it.token}`);
  assert.equal(await shell.closed, "4409 agent offline");
});

test("closes the streams of a robot with 4404 when it is decommissioned", TIMEOUT, async () => {
  await using it = await startRig();
  const viewer = it.view();
  await viewer.headers;
  // Any publisher on the bus can send this message, so the server checks it against the database.
  for (const forged of [{ org_id: it.org_id, robot_id: it.robot_id }, { robot_id: it.robot_id }, null, "text"])
    it.plane.bus.publish(ROBOT_REMOVED, forged);
  await ingestLogs(it.plane, it.session, flush(131, 131));
  await until("a record after the forged messages", () => viewer.records.length > 0);
  await it.plane.db.run(
    sql`update robot set decommissioned_at = ${it.plane.clock.now()} where org_id = ${it.org_id} and id = ${it.robot_id}`,
  );
  it.plane.bus.publish(ROBOT_REMOVED, { org_id: it.org_id, robot_id: it.robot_id });
  assert.equal(await viewer.closed, "4404 robot removed");
  assert.equal(await it.view().closed, "4404 robot removed");
});

test("closes open streams within 2 s after their token is revoked, expires or loses its role", TIMEOUT, async () => {
  await using it = await startRig();
  const { plane, org_id } = it;
  const watch = async (change: (token_id: string) => Promise<unknown>): Promise<string> => {
    const token = await it.plane.db.one(sql`select 1`).then(() => it.rig.org({ role: "viewer" }));
    await plane.db.run(sql`update credential set org_id = ${org_id} where id = ${token.token_id}`);
    const viewer = it.view(`${it.path}?token=${token.token}`);
    await viewer.headers;
    await change(token.token_id);
    await it.rig.clock.advance({ seconds: 2 });
    return viewer.closed;
  };
  const now = plane.clock.now();
  assert.match(await watch((id) => plane.db.run(sql`update credential set revoked_at = ${now} where id = ${id}`)), /^4401 .*revoked/);
  assert.match(await watch((id) => plane.db.run(sql`update credential set expires_at = ${now} where id = ${id}`)), /^4401 .*expired/);
  const shown = it.view();
  await shown.headers;
  await plane.db.run(sql`update org set status = 'pending' where id = ${org_id}`);
  await it.rig.clock.advance({ seconds: 2 });
  assert.match(await shown.closed, /^4403 /);
});

test("returns errors before the WebSocket upgrade as HTTP responses with an error body", TIMEOUT, async () => {
  await using it = await startRig();
  const other = await it.rig.org();
  const viewer = await it.rig.org({ role: "viewer" });
  await it.plane.db.run(sql`update credential set org_id = ${it.org_id} where id = ${viewer.token_id}`);
  const shell = `/api/robots/${it.robot_id}/shell/ws`;
  const cases: [string, number, string, Record<string, string>?, string?][] = [
    [it.path, 401, "unauthorized"],
    [`${it.path}?token=rf_org_wrong`, 401, "unauthorized"],
    [`${it.path}?token=${other.token}`, 404, "not_found"],
    [`${it.path}?token=${it.token}&org_id=${other.org_id}`, 403, "forbidden"],
    [`${shell}?token=${viewer.token}`, 403, "forbidden"],
    [`/api/robots/rob_none/logs/ws?token=${it.token}`, 404, "not_found"],
    [`/api/robots/%00/logs/ws?token=${it.token}`, 404, "not_found"],
    [`${it.path}?token=${it.token}&tail=5`, 400, "bad_request"],
    [`${it.path}?token=${it.token}&org_id=${it.org_id}&org_id=x`, 400, "bad_request"],
    [`${it.path}?token=${it.token}`, 400, "bad_request", { "sec-websocket-version": "8" }],
    [`${it.path}?token=${it.token}`, 400, "bad_request", { "sec-websocket-key": "short" }],
    [`${it.path}?token=${it.token}`, 400, "bad_request", { "sec-websocket-protocol": "a,,b" }],
    [`${it.path}?token=${it.token}`, 405, "http_error", {}, "POST"],
  ];
  for (const [of, status, code, headers, method] of cases) {
    const reply = await it.refused(of, headers, method);
    assert.deepEqual([of, reply.status, reply.code], [of, status, code]);
    assert.match(String(reply.headers["content-type"]), /^application\/json/);
  }
  assert.equal((await it.refused(`${shell}?token=${viewer.token}`)).headers["x-service-org-id"], it.org_id);
});

test("accepts a stream's token in query or header, and returns 429 after many wrong tokens", TIMEOUT, async () => {
  await using it = await startRig();
  await it.view(`${it.path}?org_id=${it.org_id}`, [], { authorization: `Bearer ${it.token}` }).headers;
  for (let i = 0; i < 20; i += 1) assert.equal((await it.refused(`${it.path}?token=rf_org_guess${i}`)).status, 401);
  const limited = await it.refused(`${it.path}?token=rf_org_guess`);
  assert.deepEqual([limited.status, limited.code], [429, "http_error"]);
  assert.ok(Number(limited.headers["retry-after"]) >= 1);
  await it.view().headers;
});

test("returns 426 for a stream request without Upgrade, after checking token, role and robot", TIMEOUT, async () => {
  await using it = await startRig();
  const ask = async (url: string, token?: string) => (await it.rig.call("GET", url, { token })).status;
  assert.equal(await ask(it.path), 401);
  assert.equal(await ask("/api/robots/rob_none/logs/ws", it.token), 404);
  const reply = await it.rig.call("GET", it.path, { token: it.token });
  assert.deepEqual([reply.status, reply.body.error.code, reply.headers["x-service-org-id"]], [426, "http_error", it.org_id]);
  assert.equal(await ask(`${it.path}?token=${it.token}`), 426);
  const post = await it.rig.call("POST", it.path, { token: it.token, body: {} });
  assert.deepEqual([post.status, post.headers.allow], [405, "GET, HEAD"]);
});

test("closes a stream with 4410 if the agent does not support it", TIMEOUT, async () => {
  await using it = await startRig();
  for (const rest of ["shell/ws?cols=80&rows=24&", "camera/ws?camera=front&", "ros/topics/echo?topic=/chatter&"]) {
    const viewer = it.view(`/api/robots/${it.robot_id}/${rest}token=${it.token}`);
    assert.equal(await viewer.closed, "4410 not supported by this agent");
  }
  const shell = it.view(`/api/robots/${it.robot_id}/shell/ws?token=${it.token}`, ["other", "roamfleet.shell.v1"]);
  assert.equal((await shell.headers)["sec-websocket-protocol"], "roamfleet.shell.v1");
  assert.equal(await shell.closed, "4410 not supported by this agent");
});

test("closes log viewers above a robot's limit with 4429, until another viewer leaves", TIMEOUT, async () => {
  await using it = await startRig();
  const viewers = [it.view(), it.view(), it.view()];
  await Promise.all(viewers.map(({ headers }) => headers));
  assert.match(await it.view().closed, /^4429 /);
  viewers[0]?.ws.close();
  await viewers[0]?.closed;
  await ingestLogs(it.plane, it.session, flush(1, 1));
  const next = it.view();
  await until("the next viewer to be admitted", () => next.records.length === 1);
});

test("ignores messages of a log viewer, but refuses messages above a maximum size", TIMEOUT, async () => {
  await using it = await startRig();
  const viewer = it.view();
  await viewer.headers;
  viewer.ws.send("hello");
  await ingestLogs(it.plane, it.session, flush(1, 1));
  await until("the record", () => viewer.records.length === 1);
  viewer.ws.send(Buffer.alloc(65 * 1024));
  assert.match(await viewer.closed, /^1009/);
});

test("disconnects a viewer that answers no ping, and keeps one that does", TIMEOUT, async () => {
  await using it = await startRig();
  const [dead, alive] = [it.view(), it.view()];
  await Promise.all([dead.headers, alive.headers]);
  dead.ws.pause();
  let pings = 0;
  alive.ws.on("ping", () => (pings += 1));
  for (let round = 1; round <= 2; round += 1) {
    await it.rig.clock.advance({ seconds: 30 });
    await until("a ping", () => pings >= round);
    // The server answers a viewer's ping only after it has processed the viewer's pong.
    const answered = once(alive.ws, "pong");
    alive.ws.ping();
    await answered;
  }
  await it.rig.clock.advance({ seconds: 30 });
  dead.ws.resume();
  assert.match(await dead.closed, /^1006/);
  await ingestLogs(it.plane, it.session, flush(1, 1));
  await until("the record", () => alive.records.length === 1);
});

test("a stopping server closes its viewers with 1013 and refuses new ones", TIMEOUT, async () => {
  await using it = await startRig();
  const viewer = it.view();
  await viewer.headers;
  await it.streams.drain();
  assert.equal(await viewer.closed, "1013 the server is stopping");
  const late = await it.refused(`${it.path}?token=${it.token}`);
  assert.deepEqual([late.status, late.code, late.headers["retry-after"]], [503, "http_error", "5"]);
});
