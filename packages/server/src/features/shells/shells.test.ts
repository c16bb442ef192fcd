import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { ShellSession as Wire } from "@roamfleet/protocol/routes";
import type { Limits } from "../../config.ts";
import { row, sql, text } from "../../kernel/sql.ts";
import { explain } from "../testing/explain.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { ShellRegistry, type ShellRequest, shellRoutes } from "./index.ts";
import { RECORDER_CHARACTERS_MAX } from "./recorder.ts";
import { dropRecordings, dropSessions } from "./retention.ts";
import { appendChunk, endSession, listAllSessions, type SessionFilter } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };

async function startRegistry() {
  const it = await startFeaturePlane([shellRoutes]);
  const { org_id, token } = await it.org({ role: "admin" });
  const { robot_id } = await seedRobot(it.plane, org_id);
  const request: ShellRequest = {
    org_id,
    robot_id,
    request_id: "req_1",
    actor: { type: "org_token", id: "tok_1", name: "ci" },
    ip: "192.0.2.1",
    app: null,
    command: ["mysql", "-psecret"],
    terminal: true,
    cols: 80,
    rows: 24,
    term: "xterm",
  };
  const sessions = async (): Promise<Wire[]> =>
    (await it.call<{ items: Wire[] }>("GET", `/api/robots/${robot_id}/shell-sessions`, { token })).body.items;
  const recording = (id: string) => it.call<string>("GET", `/api/shell-sessions/${id}/recording`, { token });
  return { it, plane: it.plane, token, request, sessions, recording, [Symbol.asyncDispose]: () => it[Symbol.asyncDispose]() };
}

test("stores a shell session before it opens, and shows its arguments only in the recording", TIMEOUT, async () => {
  await using one = await startRegistry();
  const registry = new ShellRegistry(one.plane);
  const session = await registry.open(one.request, assert.fail);
  const [open] = await one.sessions();
  assert.deepEqual([open?.id, open?.status, open?.program, open?.ended_at], [session.id, "open", "mysql", null]);
  assert.ok(!JSON.stringify(open).includes("secret"));
  await session.recorder.output(Buffer.from("gr\xc3", "latin1"));
  await session.recorder.output(Buffer.concat([Buffer.from("\xbc\xff", "latin1"), Buffer.from(" \u2028end")]));
  await session.end({ status: "ended", exit_code: 3, reason: "exit" });
  await registry.settled();
  const [ended] = await one.sessions();
  assert.deepEqual([ended?.status, ended?.exit_code, ended?.reason, ended?.output_bytes], ["ended", 3, "exit", 12]);
  const { body } = await one.recording(session.id);
  const [header, ...events] = body.trimEnd().split("\n");
  assert.equal((JSON.parse(header ?? "") as { command: string }).command, "mysql -psecret");
  assert.equal(events.map((line) => (JSON.parse(line) as string[])[2]).join(""), "grü\ufffd \u2028end");
  assert.ok(!body.includes("\u2028"), "some readers treat it as a line end");
});

test("closes the shell sessions of a dead server once, as aborted", TIMEOUT, async () => {
  await using one = await startRegistry();
  const registry = new ShellRegistry(one.plane);
  const session = await registry.open(one.request, () => {});
  await one.plane.db.run(sql`update shell_session set node_epoch = node_epoch + 100 where id = ${session.id}`);
  for (let i = 0; i < 2; i += 1) await registry.sweep();
  const [session_row] = await one.sessions();
  assert.deepEqual([session_row?.status, session_row?.reason, session_row?.ended_at], ["aborted", "server_lost", null]);
  // A server that was declared dead but still runs does not close the session again.
  await session.end({ status: "ended", exit_code: 0, reason: "exit" });
  assert.equal((await one.sessions())[0]?.status, "aborted");
  const closed = await one.plane.db.run(sql`select from timeline_entry where kind = 'shell.closed'`);
  assert.equal(closed, 1);
});

test("stops recording and ends the shell after its session was closed as aborted", TIMEOUT, async () => {
  await using one = await startRegistry();
  const registry = new ShellRegistry(one.plane);
  const reasons: string[] = [];
  const session = await registry.open(one.request, (reason) => void reasons.push(reason));
  const flushed = async (): Promise<number> => {
    await one.it.clock.advance({ milliseconds: 500 });
    return await one.plane.db.run(sql`select from shell_recording where session_id = ${session.id}`);
  };
  await until("its header", async () => (await flushed()) === 1);
  await one.plane.db.run(sql`update shell_session set node_epoch = node_epoch + 100 where id = ${session.id}`);
  await registry.sweep();
  await session.recorder.output(Buffer.from("after its end"));
  await until("the recorder to fail", async () => (await flushed()) > 1 || reasons.length > 0);
  assert.deepEqual([reasons, await flushed()], [["the session cannot be recorded"], 1]);
});

test("counts a chunk of a shell recording once even if it is written twice", TIMEOUT, async () => {
  await using one = await startRegistry();
  const session = await new ShellRegistry(one.plane).open(one.request, assert.fail);
  const { org_id } = one.request;
  const write = (seq: number) =>
    appendChunk(one.plane.db, { org_id, session_id: session.id, seq, bytes: Buffer.alloc(10), output_bytes: 7 });
  assert.deepEqual([await write(1_000), await write(1_000)], [true, true]);
  assert.equal((await one.sessions())[0]?.recording.bytes, 10);
  await endSession(one.plane.db, org_id, session.id, { status: "aborted", exit_code: null, reason: "server_lost", ended_at: null });
  assert.deepEqual([await write(1_000), await write(1_001)], [true, false]);
  assert.equal((await one.sessions())[0]?.recording.bytes, 10);
});

test("a slow database pauses the shell, and a long outage ends it", TIMEOUT, async () => {
  await using one = await startRegistry();
  const reasons: string[] = [];
  const session = await new ShellRegistry(one.plane).open(one.request, (reason) => void reasons.push(reason));
  await one.plane.db.run(sql`alter table shell_recording add constraint refuse_all check (seq < 0) not valid`);
  let [written, full] = [0, false];
  const filling = (async () => {
    while (reasons.length === 0) {
      await session.recorder.output(Buffer.alloc(16 * 1024, "x"));
      written += 16 * 1024;
    }
    full = true;
  })();
  await until("the recorder to be full", () => written > RECORDER_CHARACTERS_MAX / 2);
  await until("the recorder to fail", async () => {
    await one.it.clock.advance({ milliseconds: 500 });
    return full;
  });
  await filling;
  assert.deepEqual(reasons, ["the session cannot be recorded"]);
  assert.ok(written <= RECORDER_CHARACTERS_MAX + 64 * 1024, `${written} bytes were taken`);
});

test("deletes old and excess shell recordings, but keeps their sessions", TIMEOUT, async () => {
  await using one = await startRegistry();
  const registry = new ShellRegistry(one.plane);
  const record = async (): Promise<string> => {
    const session = await registry.open(one.request, assert.fail);
    await session.recorder.output(Buffer.from(`${Math.random()}`.repeat(50)));
    await session.end({ status: "ended", exit_code: 0, reason: "exit" });
    return session.id;
  };
  const kept = async (): Promise<string[]> =>
    (await one.sessions()).filter(({ recording }) => recording.status === "kept").map(({ id }) => id);
  const old = await record();
  await one.it.clock.advance({ hours: 24 * 91 });
  const [second, third] = [await record(), await record()];
  await dropRecordings(one.plane);
  assert.deepEqual(await kept(), [third, second]);
  assert.equal((await one.recording(old)).status, 404);
  const bytes = (await one.sessions())[0]?.recording.bytes ?? 0;
  one.plane.settings = { ...one.plane.settings, limits: { ...one.plane.settings.limits, shell_recording_bytes_max: bytes + 1 } };
  await dropRecordings(one.plane);
  assert.deepEqual(await kept(), [third]);
  assert.equal((await one.sessions()).length, 3);
});

test("deletes old closed shell sessions without recordings, unless the retention is 0", TIMEOUT, async () => {
  await using one = await startRegistry();
  const registry = new ShellRegistry(one.plane);
  const record = async (): Promise<string> => {
    const session = await registry.open(one.request, assert.fail);
    await session.recorder.output(Buffer.from("hello"));
    await session.end({ status: "ended", exit_code: 0, reason: "exit" });
    return session.id;
  };
  const keep = (limits: Partial<Limits>): void => {
    one.plane.settings = { ...one.plane.settings, limits: { ...one.plane.settings.limits, ...limits } };
  };
  const ids = async (): Promise<string[]> => (await one.sessions()).map(({ id }) => id);
  const open = await registry.open(one.request, assert.fail);
  const old = await record();
  await one.it.clock.advance({ hours: 24 * 31 });
  const recent = await record();
  keep({ shell_session_retention_days: 0 });
  await dropRecordings(one.plane);
  await dropSessions(one.plane);
  assert.deepEqual((await ids()).toSorted(), [open.id, old, recent].toSorted());
  keep({ shell_session_retention_days: 30 });
  await dropSessions(one.plane);
  assert.deepEqual((await ids()).toSorted(), [open.id, old, recent].toSorted(), "a session with a recording is kept");
  await dropRecordings(one.plane);
  await dropSessions(one.plane);
  assert.deepEqual((await ids()).toSorted(), [open.id, recent].toSorted());
  assert.deepEqual(
    await one.it.plane.db.many(sql(row({ session_id: text }))`select session_id from shell_recording where session_id = ${old}`),
    [],
  );
  await open.end({ status: "ended", exit_code: 0, reason: "exit" });
});

const ROWS = 20_000;

test("the list of shell sessions reads no more rows than its limit, with any filter", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const { org_id, token } = await it.org();
  const caller = await plane.authenticators.portal(token, org_id);
  const [common, rare] = [await seedRobot(plane, org_id), await seedRobot(plane, org_id)];
  const insert = (prefix: string, robot_id: string, actor: string, status: string, count: number) =>
    plane.db.run(sql`
      insert into shell_session (org_id, id, robot_id, request_id, actor, ip, terminal, status, node_id, node_epoch, started_at)
      select ${org_id}, ${prefix}::text || lpad(n::text, 10, '0'), ${robot_id}, 'r', jsonb_build_object('type', 'user', 'id', ${actor}::text), '192.0.2.1',
        true, ${status}, 'node_a', 1, ${plane.clock.now()}
      from generate_series(1, ${count}::int) n`);
  await insert("shl_0", rare.robot_id, "usr_rare", "aborted", 3);
  await insert("shl_1", common.robot_id, "usr_common", "ended", ROWS);
  await plane.db.run(sql`analyze shell_session`);
  const filters: SessionFilter[] = [{ robot_id: rare.robot_id }, { actor_id: "usr_rare" }, { status: "aborted" }, { status: "open" }];
  for (const filter of filters) {
    const { rows, ms } = await explain(plane.db, (db) => listAllSessions(db, caller, filter, { after: null, limit: 200 }));
    t.diagnostic(`${JSON.stringify(filter)}: ${rows} rows, ${ms} ms`);
    assert.ok(rows <= 200, JSON.stringify(filter));
  }
});
