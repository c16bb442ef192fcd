import assert from "node:assert/strict";
import { test } from "node:test";
import { type Desired, LINK_PROTOCOLS, type ServerMessage } from "@roamfleet/protocol/link";
import type { Plane } from "../../../context.ts";
import { createLog } from "../../../kernel/log.ts";
import { MasterKeys } from "../../../kernel/master-keys.ts";
import { sql } from "../../../kernel/sql.ts";
import type { Session } from "../../../link/index.ts";
import { configRoutes, effectiveFiles } from "../../configs/index.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { greetRobot, pushDesired } from "./push.ts";
import { registryOf } from "./desired.ts";

const TIMEOUT = { timeout: 120_000 };
const IMAGE = `acme/nav@sha256:${"a".repeat(64)}`;
const LOGIN = { username: "robots", password: "pulls-only-7f3c" };

test("takes an image's registry from the host in its name, or else Docker Hub", () => {
  const registries = {
    [`ghcr.io/acme/${IMAGE}`]: "ghcr.io",
    [`Registry.Example:5000/nav@sha256:${"a".repeat(64)}`]: "registry.example:5000",
    [`localhost/nav@sha256:${"a".repeat(64)}`]: "localhost",
    [`nav@sha256:${"a".repeat(64)}`]: "docker.io",
    [IMAGE]: "docker.io",
  };
  for (const [image, registry] of Object.entries(registries)) assert.equal(registryOf(image), registry);
});

/** Seeds robots that run images, and collects the desired state that each is sent. */
async function start() {
  const sent_to = new Map<string, Desired>();
  const sessions = new Map<string, Session>();
  const rig = await startFeaturePlane([configRoutes], { sessions });
  const { db, clock, link } = rig.plane;
  Object.assign(link, { send: (robot_id: string, message: ServerMessage) => void sent_to.set(robot_id, message as Desired) });
  const org = await rig.org();
  const robot = async (image: string, place: object = {}) => {
    const seeded = await seedRobot(rig.plane, org.org_id, place);
    const release_id = rig.plane.id("rel");
    const now = clock.now();
    await db.run(sql`
      insert into release (org_id, id, tag, kind, artifact_sha256, artifact_size, artifact_state, image, created_at, updated_at)
      values (${org.org_id}, ${release_id}, ${release_id}, 'container_image', ${"a".repeat(64)}, 0, 'external', ${image}, ${now}, ${now})`);
    await db.run(
      sql`insert into robot_app (org_id, robot_id, app, desired_release_id, updated_at) values (${org.org_id}, ${seeded.robot_id}, 'main', ${release_id}, ${now})`,
    );
    sessions.set(seeded.robot_id, {} as Session);
    return seeded;
  };
  const login = (key: string, value: unknown = LOGIN, more: object = {}) =>
    rig.call<{ error?: { message: string } }>("POST", "/api/configs", {
      token: org.token,
      body: { namespace: "registries", key, value, secret: true, ...more },
    });
  return {
    ...rig,
    org,
    robot,
    login,
    tell: async (plane: Plane, ...robot_ids: string[]) => {
      await pushDesired(plane, org.org_id, robot_ids);
      return robot_ids.map((id) => sent_to.get(id)?.apps["main"]?.release?.registry_auth);
    },
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("sends a robot the registry login of the nearest scope, only for its image's registry", TIMEOUT, async () => {
  await using rig = await start();
  const a = await rig.robot(`ghcr.io/${IMAGE}`);
  const b = await rig.robot(`ghcr.io/${IMAGE}`);
  const elsewhere = await rig.robot(`quay.io/${IMAGE}`);
  assert.equal((await rig.login("GHCR.io")).status, 201);
  const nearer = { username: "fleet", password: "another-1" };
  assert.equal((await rig.login("GHCR.io", nearer, { scope: "fleet", scope_id: b.fleet_id })).status, 201);
  assert.deepEqual(await rig.tell(rig.plane, a.robot_id, b.robot_id, elsewhere.robot_id), [LOGIN, nearer, undefined]);
});

test("sends the registry login to a robot only after its approval", TIMEOUT, async () => {
  await using rig = await start();
  const [pending, approved] = [await rig.robot(`ghcr.io/${IMAGE}`), await rig.robot(`ghcr.io/${IMAGE}`)];
  await rig.login("ghcr.io");
  const set = (at: Date | null) => rig.plane.db.run(sql`update robot set approval_requested_at = ${at} where id = ${pending.robot_id}`);
  await set(rig.plane.clock.now());
  assert.deepEqual(await rig.tell(rig.plane, pending.robot_id, approved.robot_id), [undefined, LOGIN]);
  await set(null);
  assert.deepEqual(await rig.tell(rig.plane, pending.robot_id), [LOGIN]);
});

test("sends a robot its registry login when it connects", TIMEOUT, async () => {
  await using rig = await start();
  const { robot_id } = await rig.robot(`ghcr.io/${IMAGE}`);
  await rig.login("ghcr.io");
  const received: Desired[] = [];
  const session = {
    org_id: rig.org.org_id,
    robot_id,
    hello: { generation: 0, protocols: LINK_PROTOCOLS },
    send: (message: ServerMessage) => void received.push(message as Desired),
  } as unknown as Session;
  await greetRobot(rig.plane, session);
  assert.deepEqual(received[0]?.apps["main"]?.release?.registry_auth, LOGIN);
});

test("refuses a registry login that is not a secret with username and password", TIMEOUT, async () => {
  await using rig = await start();
  const cases: [string, unknown, object, RegExp][] = [
    ["ghcr.io", LOGIN, { secret: false }, /secret must be true/],
    ["ghcr.io", { username: "x" }, {}, /value must be \{"username"/],
    ["ghcr.io", { ...LOGIN, token: "t" }, {}, /value must be/],
    ["ghcr.io", "robots:pulls-only-7f3c", {}, /value must be/],
    ["ghcr.io", { username: "", password: "pulls-only-7f3c" }, {}, /value must be/],
    ["https://ghcr.io/v2", LOGIN, {}, /key must be the host/],
  ];
  for (const [key, value, more, message] of cases) {
    const { status, body } = await rig.login(key, value, more);
    assert.equal(status, 400);
    assert.match(body.error?.message ?? "", message);
    assert.doesNotMatch(body.error?.message ?? "", /pulls-only/);
  }
});

test("does not deploy a registry login as a config file", TIMEOUT, async () => {
  await using rig = await start();
  const { robot_id } = await rig.robot(`ghcr.io/${IMAGE}`);
  await rig.login("ghcr.io");
  await rig.call("POST", "/api/configs", { token: rig.org.token, body: { key: "speed", value: 1 } });
  for (const namespace of [null, "registries"]) {
    const names: string[] = [];
    const always = new Map([[robot_id, namespace === null ? [] : [namespace]]]);
    for await (const files of effectiveFiles(rig.plane.db, rig.plane, rig.org.org_id, { robot_ids: [robot_id], namespace, always }))
      names.push(...(files.get(robot_id)?.files.keys() ?? []));
    assert.deepEqual(names, namespace === null ? ["default"] : []);
  }
});

test("sends the desired state without registry logins if the data key is missing", TIMEOUT, async () => {
  await using rig = await start();
  const { robot_id } = await rig.robot(`ghcr.io/${IMAGE}`);
  await rig.login("ghcr.io");
  const lines: string[] = [];
  const log = createLog({ level: "trace", stream: { write: (text: string) => void lines.push(text) } });
  assert.deepEqual(await rig.tell({ ...rig.plane, log }, robot_id), [LOGIN]);
  assert.deepEqual(await rig.tell({ ...rig.plane, log, secrets: new MasterKeys([Buffer.alloc(32, 9)]) }, robot_id), [undefined]);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /could not read registry logins/);
  assert.doesNotMatch(lines.join(), /pulls-only/);
});
