import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { createClient } from "@roamfleet/sdk";
import { WebSocket } from "ws";
import { connect } from "../../packages/server/src/engines/db/index.ts";
import { runningDatabase } from "../../packages/server/src/engines/db/embedded/index.ts";
import { silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { systemClock } from "@roamfleet/clock";
import { filesWithSecrets, secretsInText, tablesWithSecrets } from "../harness/secrets.ts";
import { provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { RfHome } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000 };
const ADMIN = `admin-${randomUUID()}`;

test("no issued secret is stored in the database, the logs, or files of the server or robot", LIMIT, async (t) => {
  await using server = await ServerProcess.start({ args: ["--log-level", "trace"], env: { SERVICE_ADMIN_TOKEN: ADMIN } });
  const { api, token } = await server.org("Sealed");
  const secrets = [ADMIN, token];
  const said: string[] = [];
  const keep = (secret: string | null): string => {
    assert.ok(secret);
    secrets.push(secret);
    return secret;
  };

  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const idempotency_key = randomUUID();
  const key = keep((await api.createEnrollmentKey({ body: { site_id, fleet_id }, idempotency_key })).data.key);
  await api.createEnrollmentKey({ body: { site_id, fleet_id }, idempotency_key });
  const user = (await api.createUser({ body: { email: "ann@example.org", name: "Ann", role: "operator" } })).data;
  const made = (await api.createToken({ body: { label: "hers", role: "operator", user_id: user.id }, idempotency_key: randomUUID() })).data;
  keep(made.token);
  const rotated = keep((await api.rotateToken({ params: { id: made.id }, body: {} })).data.token);
  const session = await signIn(server.url, rotated);
  keep(session.cookie.split("=")[1] ?? "");
  keep(session.csrf);
  const org_token = keep((await api.createToken({ body: { label: "script", role: "viewer" } })).data.token);

  await using robot = new AgentProcess({ url: server.url, key, name: "cart-1" });
  const robot_id = await robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  // The program searches its environment for the key, and prints the number of matches.
  const bundle = await appBundle(`env | grep -c rf_enroll_ | sed "s/^/keys seen: /"; trap "exit 0" TERM; while :; do sleep 0.1; done`);
  await pushBundle(api, "app", bundle);
  await api.createDeployment({ body: { release: "app", robot_id, rollout: { verify_seconds: 1 } }, idempotency_key: randomUUID() });
  await until("the program's output", async () =>
    (await api.listRobotLogs({ params: { id: robot_id } })).items.some(({ message }) => message.startsWith("keys seen:")),
  );
  const { items } = await api.listRobotLogs({ params: { id: robot_id } });
  assert.deepEqual(
    items.filter(({ message }) => message.startsWith("keys seen:")).map(({ message }) => message),
    ["keys seen: 0"],
  );

  await using home = await RfHome.make();
  for (const args of [
    ["login", "--base-url", server.url, "--token", rotated],
    ["robots", "list"],
    ["whoami"],
    ["--json", "releases", "list"],
  ]) {
    const { stdout, stderr } = await home.run(args);
    said.push(stdout, stderr);
  }
  // Sends secrets, valid and invalid, in every place where a client may put one.
  for (const secret of [rotated, org_token, key, session.cookie.split("=")[1] ?? "", session.csrf]) {
    await closed(`${server.url.replace("http", "ws")}/api/robots/${robot_id}/logs/ws?token=${secret}`);
    await api.request("GET", `/api/robots?token=${secret}`);
    await api.request("POST", "/api/sites", { body: `{"name": "x", "${secret}": 1}`, headers: { "content-type": "application/json" } });
    await createClient({ base_url: server.url, token: secret }).request("POST", "/api/deployments", { body: "{", headers: {} });
    said.push(await (await createClient({ base_url: server.url, token: `${secret}0` }).request("GET", "/api/me")).text());
  }

  // Requests of the dashboard, of a page of another site, and with the wrong secret as CSRF token.
  const sites = `${server.url}/api/sites`;
  for (const [origin, csrf] of [
    [server.url, session.csrf],
    ["https://evil.example", session.csrf],
    [server.url, session.cookie],
  ] as const) {
    const headers = { cookie: session.cookie, origin, "x-csrf-token": csrf, "content-type": "application/json" };
    said.push(await (await fetch(sites, { method: "POST", headers, body: JSON.stringify({ name: randomUUID() }) })).text());
    said.push(await (await fetch(sites, { headers: { ...headers, cookie: `${session.cookie}0` } })).text());
  }
  said.push(await (await fetch(`${server.url}/api/audit/export`, { headers: { cookie: session.cookie } })).text());

  const connection = await runningDatabase(path.join(server.data, "postgres"));
  assert.ok(connection);
  const db = await connect({ connection, clock: systemClock, log: silentLog });
  try {
    assert.deepEqual(await tablesWithSecrets(db), []);
  } finally {
    await db.close();
  }
  await robot.program.stop();
  await server.program.stop();
  said.push(server.program.output, robot.program.output);
  assert.deepEqual(secretsInText(said.join("\n")), []);
  assert.ok(!said.some((words) => words.includes(ADMIN)));
  assert.deepEqual(filesWithSecrets(server.data, secrets), []);
  assert.deepEqual(filesWithSecrets(robot.state, secrets), []);
  provePromise(
    t,
    3,
    `0 hits for ${secrets.length} secrets in the dump, ${said.length} outputs, the data directory with its write-ahead log and the robot's state`,
  );
});

/** Returns the cookie that a browser stores after signing in with a token. */
async function signIn(url: string, token: string): Promise<{ cookie: string; csrf: string }> {
  const answer = await fetch(`${url}/api/auth/session`, { method: "POST", headers: { authorization: `Bearer ${token}` } });
  assert.equal(answer.status, 201);
  const { data } = (await answer.json()) as { data: { csrf_token: string } };
  return { cookie: answer.headers.getSetCookie()[0]?.split(";")[0] ?? "", csrf: data.csrf_token };
}

/** Opens a WebSocket, and resolves when it has ended, whether or not it was accepted. */
async function closed(url: string): Promise<void> {
  const socket = new WebSocket(url);
  socket.on("open", () => socket.close());
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("close", resolve));
}
