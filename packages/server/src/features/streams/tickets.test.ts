import assert from "node:assert/strict";
import { test } from "node:test";
import { streamAccess, type StreamName, streamPaths } from "@roamfleet/protocol";
import type { StreamTicket } from "@roamfleet/protocol/routes";
import { int, row, sql } from "../../kernel/sql.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { startRig } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };
type Rig = Awaited<ReturnType<typeof startRig>>;
const STREAMS = Object.keys(streamPaths) as StreamName[];

async function ticketFor(it: Rig, stream: StreamName = "logs", token = it.token): Promise<string> {
  const body = { robot_id: it.robot_id, stream };
  const reply = await it.rig.call<{ data: StreamTicket }>("POST", "/api/stream-tickets", { token, body });
  assert.equal(reply.status, 201, JSON.stringify(reply.body));
  assert.equal(reply.body.data.expires_at, new Date(it.plane.clock.now().getTime() + 30_000).toISOString());
  return reply.body.data.ticket ?? "";
}

/** Creates a token of the rig's org. Its id is returned so that a test can change it. */
async function another(it: Rig, role: "viewer" | "operator"): Promise<{ token: string; token_id: string }> {
  const made = await it.rig.org({ role });
  await it.plane.db.run(sql`update credential set org_id = ${it.org_id} where id = ${made.token_id}`);
  return made;
}

const tickets = async (it: Rig): Promise<number> =>
  (await it.plane.db.one(sql(row({ count: int }))`select count(*)::int as count from stream_ticket where org_id = ${it.org_id}`)).count;

test("a stream ticket opens its stream once, with the permissions of the token that created it", TIMEOUT, async () => {
  await using it = await startRig();
  const ticket = await ticketFor(it);
  assert.match(ticket, /^rf_ticket_[0-9a-f]{64}$/);
  const viewer = it.view(`${it.path}?ticket=${ticket}`);
  assert.equal((await viewer.headers)["x-service-org-id"], it.org_id);
  const again = await it.refused(`${it.path}?ticket=${ticket}`);
  assert.deepEqual([again.status, again.code], [401, "unauthorized"]);
  await it.plane.db.run(sql`update credential set revoked_at = ${it.plane.clock.now()} where id = ${it.token_id}`);
  await it.rig.clock.advance({ seconds: 2 });
  assert.match(await viewer.closed, /^4401 .*revoked/);
});

test("only one of many concurrent requests with the same stream ticket is admitted", TIMEOUT, async () => {
  await using it = await startRig();
  const ticket = await ticketFor(it);
  const viewers = Array.from({ length: 30 }, () => it.view(`${it.path}?ticket=${ticket}`));
  const opened = await Promise.all(
    viewers.map(({ ws }) =>
      Promise.race([
        new Promise<number>((resolve) => ws.once("open", () => resolve(1))),
        new Promise<number>((resolve) => ws.once("unexpected-response", () => resolve(0))),
      ]),
    ),
  );
  assert.equal(
    opened.reduce((sum, one) => sum + one, 0),
    1,
  );
});

test("a stream ticket is valid for one attempt on its stream within 30 s", TIMEOUT, async () => {
  await using it = await startRig();
  const { robot_id: next } = await seedRobot(it.plane, it.org_id);
  const other = await it.rig.org();
  const elsewhere = [
    `/api/robots/${next}/logs/ws?ticket=`,
    `/api/robots/${it.robot_id}/camera/ws?ticket=`,
    `${it.path}?org_id=${other.org_id}&ticket=`,
    `${it.path}?tail=5&ticket=`,
  ];
  for (const [i, path] of elsewhere.entries()) {
    const ticket = await ticketFor(it);
    assert.equal((await it.refused(path + ticket)).status, [401, 401, 403, 400][i], path);
    assert.equal((await it.refused(`${it.path}?ticket=${ticket}`)).status, 401, path);
  }
  const late = await ticketFor(it);
  await it.rig.clock.advance({ seconds: 30 });
  assert.equal((await it.refused(`${it.path}?ticket=${late}`)).status, 401);
  const both = await it.refused(`${it.path}?ticket=${await ticketFor(it)}&token=${it.token}`);
  assert.deepEqual([both.status, both.code], [400, "bad_request"]);
  // Used and expired tickets do not count as guesses; unknown tickets do.
  for (let i = 0; i < 30; i += 1) assert.equal((await it.refused(`${it.path}?ticket=${late}`)).status, 401);
  for (let i = 0; i < 20; i += 1) assert.equal((await it.refused(`${it.path}?ticket=rf_ticket_guess${i}`)).status, 401);
  assert.equal((await it.refused(`${it.path}?ticket=rf_ticket_guess`)).status, 429);
});

test("refuses a stream ticket for a missing robot or without the stream's role", TIMEOUT, async () => {
  await using it = await startRig();
  const viewer = await another(it, "viewer");
  const other = await it.rig.org();
  for (const stream of STREAMS) {
    const ask = async (token: string, robot_id = it.robot_id): Promise<number> =>
      (await it.rig.call("POST", "/api/stream-tickets", { token, body: { robot_id, stream } })).status;
    assert.equal(await ask(it.token), 201, stream);
    assert.equal(await ask(viewer.token), streamAccess[stream].access === "viewer" ? 201 : 403, stream);
    assert.equal(await ask(other.token), 404, stream);
    assert.equal(await ask(it.token, "rob_none"), 404, stream);
  }
  const bodies = [
    { robot_id: it.robot_id, stream: "x" },
    { stream: "logs" },
    { fleet_id: it.robot_id, stream: "logs" },
    { robot_id: it.robot_id, stream: "fleet_logs" },
    { robot_id: it.robot_id, fleet_id: it.robot_id, stream: "logs" },
  ];
  for (const body of bodies)
    assert.equal((await it.rig.call("POST", "/api/stream-tickets", { token: it.token, body })).status, 400, JSON.stringify(body));
});

test("a stream ticket is invalid after its token is revoked or loses its role", TIMEOUT, async () => {
  await using it = await startRig();
  const [revoked, lowered] = [await another(it, "operator"), await another(it, "operator")];
  const [first, second] = [await ticketFor(it, "camera", revoked.token), await ticketFor(it, "camera", lowered.token)];
  await it.plane.db.run(sql`update credential set revoked_at = ${it.plane.clock.now()} where id = ${revoked.token_id}`);
  await it.plane.db.run(sql`update credential set role = 'viewer' where id = ${lowered.token_id}`);
  await it.rig.clock.advance({ seconds: 2 });
  const camera = `/api/robots/${it.robot_id}/camera/ws?ticket=`;
  assert.equal((await it.refused(camera + first)).status, 401);
  assert.equal((await it.refused(camera + second)).status, 403);
});

test("a replayed response does not contain the stream ticket, and expired tickets are deleted", TIMEOUT, async () => {
  await using it = await startRig();
  const ask = async () =>
    (
      await it.rig.call<{ data: StreamTicket }>("POST", "/api/stream-tickets", {
        token: it.token,
        body: { robot_id: it.robot_id, stream: "logs" },
        headers: { "idempotency-key": "same" },
      })
    ).body.data;
  const [first, replay] = [await ask(), await ask()];
  assert.match(first.ticket ?? "", /^rf_ticket_/);
  assert.deepEqual({ ...replay, ticket: null }, { ...first, ticket: null });
  assert.equal(replay.ticket, null);
  assert.equal(await tickets(it), 1);
  await it.rig.clock.advance({ seconds: 600 });
  await it.streams.sweep();
  assert.equal(await tickets(it), 1, "a recently expired ticket is kept for its error message");
  await it.rig.clock.advance({ seconds: 31 });
  await it.streams.sweep();
  assert.equal(await tickets(it), 0);
});

test("a stream ticket for a fleet opens the logs of that fleet once", TIMEOUT, async () => {
  await using it = await startRig();
  const body = { fleet_id: it.fleet_id, stream: "fleet_logs" };
  const { data } = (await it.rig.call<{ data: StreamTicket }>("POST", "/api/stream-tickets", { token: it.token, body })).body;
  assert.deepEqual([data.robot_id, data.fleet_id], [null, it.fleet_id]);
  const path = `/api/fleets/${it.fleet_id}/logs/ws?ticket=${data.ticket}`;
  await it.view(path).headers;
  assert.equal((await it.refused(path)).status, 401);
  assert.equal(
    (await it.rig.call("POST", "/api/stream-tickets", { token: it.token, body: { ...body, fleet_id: "fleet_none" } })).status,
    404,
  );
});
