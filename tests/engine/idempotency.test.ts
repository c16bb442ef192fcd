import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const TIMEOUT = { timeout: 120_000 };

async function post(
  plane: Harness,
  path: string,
  key: string,
  body: unknown,
): Promise<{ status: number; text: string; replayed: string | null; location: string | null }> {
  const response = await plane.fetch(plane.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${plane.default_org.admin_token}`, "content-type": "application/json", "idempotency-key": key },
    body: JSON.stringify(body),
  });
  return {
    status: response.status,
    text: await response.text(),
    replayed: response.headers.get("idempotency-replayed"),
    location: response.headers.get("location"),
  };
}

const rowsOf = async ({ db }: Harness) =>
  await db.one(
    sql(
      row({ deployments: int, targets: int }),
    )`select (select count(*)::int from deployment) as deployments, (select count(*)::int from deployment_target) as targets`,
  );

test("200 parallel requests with one Idempotency-Key create one deployment and get equal responses", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  const release = await plane.release();
  const body = { release: release.tag, robot_id: robot.id };
  const answers = await Promise.all(Array.from({ length: 200 }, () => post(plane, "/api/deployments", "the-same", body)));
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1, "equal to the byte");
  assert.equal(new Set(answers.map(({ location }) => location)).size, 1);
  assert.equal(answers.filter(({ replayed }) => replayed === "true").length, 199);
  assert.deepEqual(await rowsOf(plane), { deployments: 1, targets: 1 });
  const { id } = (JSON.parse(answers[0]?.text ?? "") as { data: { id: string } }).data;
  await plane.until("the deployment is applied", async () => (await plane.deployment(id)).status === "applied");
  const messages = robot.received.filter(({ apps }) => apps.main?.deployment_id === id);
  // If a robot is slow to respond, the server sends it the same message again.
  assert.equal(new Set(messages.map(({ generation }) => generation)).size, 1);
  const later = await post(plane, "/api/deployments", "the-same", body);
  assert.equal(later.text, answers[0]?.text, "the original answer, not the present state");
  await checkEngine(plane, { ended: true });
});

test("200 parallel requests with one Idempotency-Key create one config deployment", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  await plane.api.setConfig({ body: { key: "speed", value: 1 } });
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => post(plane, "/api/configs/deployments", "the-same", { robot_id: robot.id })),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.deepEqual(await rowsOf(plane), { deployments: 1, targets: 1 });
});

test("the idempotency key of a deployment is still valid after eight days and a restart", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robot = await plane.enrollRobot();
  const [release, other] = [await plane.release(), await plane.release()];
  const body = { release: release.id, robot_id: robot.id };
  const first = await post(plane, "/api/deployments", "kept", body);
  await plane.settle();
  await plane.restart();
  // The loop that deletes old idempotency keys runs every ten minutes. It uses the time that is stored with each key.
  await plane.db.run(sql`update idempotency set created_at = created_at - interval '8 days', expires_at = expires_at - interval '8 days'`);
  await plane.advance({ minutes: 11 });
  const again = await post(plane, "/api/deployments", "kept", { robot_id: robot.id, release_id: release.id });
  assert.deepEqual([again.status, again.text, again.replayed], [201, first.text, "true"], "an alias counts as the same body");
  const another = await post(plane, "/api/deployments", "kept", { ...body, release: other.id });
  assert.equal(another.status, 409);
  assert.equal((await post(plane, "/api/configs/deployments", "kept", { robot_id: robot.id })).status, 201, "another route, another key");
  const org = await plane.org();
  const foreign = await org.enrollRobot();
  const deployment = await org.deploy(await org.release(), { robot_id: foreign.id }, { idempotency_key: "kept" });
  await plane.settle();
  assert.equal((await org.deployment(deployment.id)).status, "applied", "another org, another key");
  await checkEngine(plane, { ended: true });
});

test("an idempotency key can be used again after a refused request", TIMEOUT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const robot = await plane.enrollRobot();
  const refused = await post(plane, "/api/deployments", "again", { release: "is-yet-to-come", robot_id: robot.id });
  assert.equal(refused.status, 404);
  await plane.release({ tag: "is-yet-to-come" });
  assert.equal((await post(plane, "/api/deployments", "again", { release: "is-yet-to-come", robot_id: robot.id })).status, 201);
});

test("a body with equivalent aliases or explicit defaults replays the first response", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot();
  const fleet_id = await plane.homeFleet();
  const { id: release } = await plane.release();
  const sha = "0".repeat(64);
  const cases: [path: string, bodies: object[]][] = [
    [
      "/api/deployments",
      [
        { release, robot_id: robot.id },
        { release_id: release, robot_id: robot.id },
        { release_tag: release, robot_id: robot.id, target_kind: "robot" },
        { release, target_kind: "robot", target_id: robot.id },
        { release, robot_id: robot.id, fleet_id: null, scheduled_at: null, dry_run: false },
        { release, robot_id: robot.id, rollout: {} },
        { release, robot_id: robot.id, rollout: { on_failure: "stop", max_attempts: 3, verify_seconds: 30, dry_run: false } },
      ],
    ],
    [
      "/api/deployments",
      [
        { release, fleet_id, rollout: { waves: [{ count: 1 }] } },
        {
          release,
          target_kind: "fleet",
          target_id: fleet_id,
          rollout: { waves: [{ count: 1, gate: "auto", soak_seconds: 0 }], max_attempts: 3 },
        },
      ],
    ],
    [
      "/api/configs/deployments",
      [{ fleet_id }, { target_kind: "fleet", target_id: fleet_id }, { fleet_id, target_kind: "fleet", namespace: null }],
    ],
    [
      "/api/releases",
      [
        { tag: "same", artifact_sha256: sha, artifact_size: 1 },
        { semver: "same", artifact_sha256: sha, artifact_size: 1, app: "main", kind: "container_image", notes: null },
      ],
    ],
    [
      "/api/configs",
      [
        { key: "speed", value: 1 },
        { key: "speed", value: 1, namespace: "default", scope: "org", secret: false },
      ],
    ],
    [
      "/api/users",
      [
        { email: "a@example.com", name: "A", role: "viewer" },
        { email: "a@example.com", name: "A", role: "viewer", scopes: [] },
      ],
    ],
    [
      "/api/tokens",
      [
        { label: "one", role: "viewer" },
        { label: "one", role: "viewer", scopes: [], expires_in_hours: 0 },
      ],
    ],
    [
      "/api/enrollment-keys",
      [
        { site_id: (await plane.api.getFleet({ params: { id: fleet_id } })).data.site_id, fleet_id, label: "key" },
        {
          site_id: (await plane.api.getFleet({ params: { id: fleet_id } })).data.site_id,
          fleet_id,
          name: "key",
          max_uses: 100,
          expires_in_hours: 24,
        },
      ],
    ],
  ];
  for (const [number, [path, bodies]] of cases.entries())
    for (const [place, body] of bodies.entries()) {
      const { status, replayed, text } = await post(plane, path, `spelling-${number}`, body);
      assert.ok(status < 300, `${path} ${JSON.stringify(body)}: ${status} ${text}`);
      assert.equal(replayed, place === 0 ? null : "true", `${path} ${JSON.stringify(body)}`);
    }
  const others: [path: string, number: number, body: object][] = [
    ["/api/deployments", 0, { release, fleet_id }],
    ["/api/deployments", 0, { release, robot_id: robot.id, rollout: { max_attempts: 4 } }],
    ["/api/configs/deployments", 2, { target_kind: "robot", target_id: robot.id }],
    ["/api/configs", 4, { key: "speed", value: 1, namespace: "other" }],
  ];
  for (const [path, number, body] of others)
    assert.equal((await post(plane, path, `spelling-${number}`, body)).status, 409, JSON.stringify(body));
  // A request body that contradicts itself is rejected, not treated as equivalent to the first body.
  assert.equal((await post(plane, "/api/deployments", "wrong", { release, robot_id: robot.id, target_kind: "fleet" })).status, 400);
});
