import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage, request } from "node:http";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { pack } from "../../packages/server/src/features/logs/codec.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { authorizeGet, makeIdentity } from "../../packages/swarm/src/testing/identity.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkTime } from "../harness/promise.ts";

const TIMEOUT = { timeout: 90_000 };
const BOUND_MS = 2_000;
const CHUNK_EVERY_MS = 10;
const RELEASE_BYTES = 48 * 1024 * 1024;

/** Starts a download whose client does not read the body. Resolves with the response when its headers have arrived. */
const startDownload = (plane: Harness, path: string, token: string): Promise<IncomingMessage> =>
  startAuthorized(plane, path, `Bearer ${token}`);

async function startAuthorized(plane: Harness, path: string, authorization: string): Promise<IncomingMessage> {
  const asked = get(`${plane.url}${path}`, { headers: { authorization }, agent: false });
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  assert.equal(answer.statusCode, 200, path);
  answer.on("error", () => {});
  return answer;
}

// Do not use `once` of node:events: it would reject with the error of a cut connection.
const closing = (answer: IncomingMessage): Promise<unknown> => new Promise((resolve) => answer.once("close", resolve));

/** Reads the rest of a download; returns whether it was complete. */
async function isWhole(answer: IncomingMessage): Promise<boolean> {
  answer.resume();
  await closing(answer);
  return answer.complete;
}

/** Reads a chunk every few milliseconds, so that the download takes some seconds. Returns whether it was complete. */
async function readSlowly(answer: IncomingMessage): Promise<boolean> {
  answer.on("data", () => {
    answer.pause();
    setTimeout(() => answer.resume(), CHUNK_EVERY_MS);
  });
  await closing(answer);
  return answer.complete;
}

/** Creates more audit entries than fit into the buffers of a connection. */
async function fill(plane: Harness): Promise<void> {
  const org_id = plane.default_org.id;
  const now = plane.clock.now();
  await plane.db.run(sql`
    insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id, data)
    select ${org_id}, 'aud_' || lpad(n::text, 26, '0'), ${now}, '{"type":"system","id":null,"name":null}', 'sample', 'POST', '/api/sample', '::1', 'r',
      jsonb_build_object('text', repeat('x', 2000)) from generate_series(1, 20000) n`);
}

test("revoking or demoting a token soon cuts its downloads and uploads, but not those of other tokens", TIMEOUT, async (t) => {
  await using plane = await startPlane();
  await fill(plane);
  const release = await plane.release({ bytes: Buffer.alloc(RELEASE_BYTES, 7) });
  const paths = ["/api/audit/export", `/api/releases/${release.id}/artifact`];
  const kept = await Promise.all(paths.map((path) => startDownload(plane, path, plane.default_org.admin_token)));
  const user = (await plane.api.createUser({ body: { email: "ada@example.org", name: "Ada", role: "admin" } })).data;
  const losses: Record<string, (token_id: string) => Promise<unknown>> = {
    revoked: (id) => plane.api.revokeToken({ params: { id } }),
    demoted: () => plane.api.updateUser({ params: { id: user.id }, body: { role: "viewer" } }),
  };
  for (const [name, take] of Object.entries(losses)) {
    const made = (await plane.api.createToken({ body: { label: name, role: "admin", user_id: user.id } })).data;
    const open = await Promise.all(paths.map((path) => startDownload(plane, path, made.token ?? "")));
    const waiting = await plane.release({ upload: false });
    const upload = request(`${plane.url}/api/releases/${waiting.id}/artifact`, {
      method: "PUT",
      headers: {
        authorization: `Bearer ${made.token ?? ""}`,
        "content-type": "application/octet-stream",
        "content-length": waiting.artifact_size,
      },
      agent: false,
    });
    const uploaded = new Promise<string>((resolve) => {
      upload.on("error", () => resolve("cut"));
      upload.on("response", ({ statusCode }) => resolve(String(statusCode)));
    });
    upload.write("c");
    await plane.until(
      "the upload to arrive",
      async () => (await plane.api.getRelease({ params: { id: waiting.id } })).data.artifact_state === "awaiting_upload",
    );
    await take(made.id);
    const since = performance.now();
    const whole = await Promise.all(open.map(readSlowly));
    assert.deepEqual([...whole, await uploaded], [false, false, "cut"], name);
    checkTime(t, `the last transfer of a token that was ${name} ended`, performance.now() - since, BOUND_MS);
  }
  for (const answer of kept) assert.equal(await isWhole(answer), true);
});

const PIECES = 300;
const PIECE_BYTES = 200_000;

/** Creates a log and a shell recording of the robot, each larger than the buffers of a connection. */
async function fillRobot(plane: Harness, robot_id: string): Promise<string[]> {
  const org_id = plane.default_org.id;
  const now = plane.clock.now();
  const records = Array.from({ length: 100 }, (_, i) => ({
    seq: i,
    at: now.toISOString(),
    level: "info" as const,
    source: "app",
    message: "x".repeat(PIECE_BYTES / 100),
    fields: {},
  }));
  const { codec, packed } = pack(records);
  await plane.db.run(sql`
    insert into log_batch (org_id, robot_id, first_seq, last_seq, received_at, first_at, last_at, record_count, codec, records)
    select ${org_id}, ${robot_id}, n * 100, n * 100 + 99, ${now}, ${now}, ${now}, 100, ${codec}, ${packed} from generate_series(1, ${PIECES}::int) n`);
  await plane.db.run(sql`
    insert into shell_session (org_id, id, robot_id, request_id, actor, ip, terminal, status, node_id, node_epoch, started_at, ended_at)
    values (${org_id}, 'shl_sample', ${robot_id}, 'r', '{"type":"system","id":null,"name":null}', '::1', true, 'ended', 'node_a', 1, ${now}, ${now})`);
  await plane.db.run(sql`
    insert into shell_recording (org_id, session_id, seq, bytes)
    select ${org_id}, 'shl_sample', n, ${gzipSync("x".repeat(PIECE_BYTES))} from generate_series(1, ${PIECES}::int) n`);
  const { fleet_id } = (await plane.api.getRobot({ params: { id: robot_id } })).data;
  return [`/api/robots/${robot_id}/logs/export`, `/api/fleets/${fleet_id ?? ""}/logs/export`, "/api/shell-sessions/shl_sample/recording"];
}

test("exports of logs and downloads of shell recordings end soon after their token is revoked", TIMEOUT, async (t) => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot({ online: false });
  const paths = await fillRobot(plane, robot.id);
  const made = (await plane.api.createToken({ body: { label: "export", role: "admin" } })).data;
  const open = await Promise.all(paths.map((path) => startDownload(plane, path, made.token ?? "")));
  const kept = await Promise.all(paths.map((path) => startDownload(plane, path, plane.default_org.admin_token)));
  await plane.api.revokeToken({ params: { id: made.id } });
  const since = performance.now();
  assert.deepEqual(await Promise.all(open.map(readSlowly)), [false, false, false]);
  checkTime(t, "the last download of the revoked token ended", performance.now() - since, BOUND_MS);
  assert.deepEqual(await Promise.all(kept.map(isWhole)), [true, true, true]);
});

test("removing or replacing a robot soon cuts its artifact download, but no other robot's", TIMEOUT, async (t) => {
  await using plane = await startPlane();
  const release = await plane.release({ bytes: Buffer.alloc(RELEASE_BYTES, 7) });
  const path = `/agent/artifacts/${release.artifact_sha256}`;
  type Robot = Awaited<ReturnType<Harness["enrollRobot"]>>;
  const start = ({ id, identity }: Pick<Robot, "id" | "identity">): Promise<IncomingMessage> =>
    startAuthorized(plane, path, authorizeGet(identity, id, { url: plane.url, path, at: plane.clock.now().getTime() }));
  const enroll = async (): Promise<Robot> => {
    const robot = await plane.enrollRobot({ online: false });
    await plane.db.run(sql`
      insert into robot_app (org_id, robot_id, app, desired_release_id, updated_at)
      values (${plane.default_org.id}, ${robot.id}, 'main', ${release.id}, ${plane.clock.now()})`);
    return robot;
  };
  const [removed, replaced, kept] = [await enroll(), await enroll(), await enroll()];
  const whole = await start(kept);
  const losses: [name: string, robot: Robot, take: () => Promise<unknown>][] = [
    ["removed", removed, () => plane.api.deleteRobot({ params: { id: removed.id } })],
    [
      "replaced",
      replaced,
      async () => {
        const { key } = (await plane.api.replaceRobot({ params: { id: replaced.id } })).data;
        await plane.api.enrollRobot({ body: { key: key ?? "", public_key: makeIdentity().public_key } });
      },
    ],
  ];
  for (const [name, robot, take] of losses) {
    const cut = await start(robot);
    await take();
    const since = performance.now();
    assert.equal(await readSlowly(cut), false, name);
    checkTime(t, `the download of the ${name} robot ended`, performance.now() - since, BOUND_MS);
  }
  assert.equal(await isWhole(whole), true);
});
