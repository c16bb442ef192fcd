import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Client, createClient } from "@roamfleet/sdk";
import { connect } from "../../packages/server/src/engines/db/index.ts";
import { silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { filesWithSecrets, tablesThatHold } from "../harness/secrets.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { RfHome } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000 };

interface Site {
  api: Client;
  fleet_id: string;
  key: string;
}

async function makeSite(api: Client): Promise<Site> {
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  assert.ok(key);
  return { api, fleet_id, key };
}

async function deployed(api: Client, body: { robot_id: string }): Promise<void> {
  const { id } = (await api.createConfigDeployment({ body, idempotency_key: randomUUID() })).data;
  const ended = await until("the config deployment to end", async () => {
    const { data } = await api.getConfigDeployment({ params: { id } });
    return data.finished_at === null ? undefined : data;
  });
  assert.equal(
    ended.status,
    "applied",
    JSON.stringify((await api.listConfigDeploymentEvents({ params: { id }, query: { include: "targets" } })).items),
  );
}

/** Reconnects the robot by a restart, instead of waiting for its next attempt. */
async function back(api: Client, robot: AgentProcess): Promise<void> {
  await robot.program.stop();
  robot.restart();
  await until("the robot to be back", async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id);
}

const fileOf = (robot: AgentProcess, namespace: string): string => path.join(robot.state, "configs", `${namespace}.json`);

test("a secret config value is stored in plain text only in the robot's config file", LIMIT, async () => {
  await using server = await ServerProcess.start({ args: ["--log-level", "trace"] });
  const { api, token } = await server.org("Sealed");
  const { fleet_id, key } = await makeSite(api);
  await using robot = new AgentProcess({ url: server.url, key, name: "cart-1" });
  const robot_id = await until("the robot to be online", async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id);
  const [first, second, late, nested] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  const secrets = [first, second, late, nested];
  const said: string[] = [];
  const ask = async (method: string, url: string, body?: object, headers: Record<string, string> = {}): Promise<number> => {
    const all = { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers };
    const answer = await fetch(`${server.url}${url}`, {
      method,
      headers: all,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    said.push(await answer.text(), JSON.stringify([...answer.headers]));
    return answer.status;
  };

  await using home = await RfHome.make();
  await home.run(["login", "--base-url", server.url, "--token", token]);
  const piped = await home.run(["configs", "set", "password", "--secret", "--fleet", fleet_id, "--watch"], { stdin: `${first}\n` });
  assert.equal(piped.code, 0, piped.stderr);
  assert.match(piped.stdout, /password = \(secret\) \(version 1\)/);
  said.push(piped.stdout, piped.stderr);
  const config_id = (await api.listConfigs({ query: { key: "password" } })).items[0]?.id ?? "";
  assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "default"), "utf8")), { password: first });
  assert.equal(statSync(fileOf(robot, "default")).mode & 0o777, 0o600);

  // A repeated request gets the response that was stored for the first.
  const idempotency = { "idempotency-key": randomUUID() };
  const scoped = { key: "password", secret: true, scope: "fleet", scope_id: fleet_id };
  assert.equal(await ask("POST", "/api/configs", { ...scoped, value: second }, idempotency), 200);
  assert.equal(await ask("POST", "/api/configs", { ...scoped, value: second }, idempotency), 200);
  assert.equal(await ask("POST", "/api/configs", { ...scoped, value: late }, idempotency), 409);
  assert.equal(await ask("POST", "/api/configs", { ...scoped, value: late, scope: "org" }), 400);
  assert.equal(await ask("POST", "/api/configs", { ...scoped, value: late, secret: false }), 409);
  assert.equal(
    await ask("POST", "/api/configs", { key: "login", secret: true, namespace: "cloud", value: { user: "cart", [nested]: nested } }),
    201,
  );
  // A schema constrains only later values, and its error names the problem without the secret.
  const strict = { properties: { login: { additionalProperties: false, properties: { user: { const: "x" } } } } };
  assert.equal(await ask("PUT", "/api/configs/schemas/cloud", { schema: strict }), 201);
  assert.equal(await ask("POST", "/api/configs", { key: "login", secret: true, namespace: "cloud", value: { [nested]: 1 } }), 400);
  await deployed(api, { robot_id });
  assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "default"), "utf8")), { password: second });
  assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "cloud"), "utf8")), { login: { user: "cart", [nested]: nested } });
  assert.equal(await ask("POST", `/api/configs/${config_id}/rollback`, { version: 1 }), 200);
  assert.equal(await ask("GET", `/api/robots/${robot_id}/config/diff`), 200);
  assert.match(said.at(-2) ?? "", /"change":"changed","deployed":null,"effective":null,"secret":true/);
  for (const url of [
    "/api/configs",
    `/api/configs/${config_id}`,
    `/api/configs/${config_id}/history`,
    "/api/configs/deployments",
    `/api/robots/${robot_id}`,
    `/api/robots/${robot_id}/config`,
    `/api/robots/${robot_id}/timeline`,
    `/api/robots/${robot_id}/logs`,
    "/api/audit/export",
  ])
    assert.equal(await ask("GET", url), 200, url);
  // The robot's config file is returned only to requests that the robot has signed.
  assert.equal(await ask("GET", "/agent/configs/default"), 401);
  for (const args of [
    ["list"],
    ["effective", "--robot", robot_id],
    ["history", config_id],
    ["diff", config_id],
    ["diff", "--robot", robot_id],
  ]) {
    const run = await home.run(["configs", ...args]);
    assert.equal(run.code, 0, run.stderr);
    said.push(run.stdout, run.stderr);
  }
  await deployed(api, { robot_id });
  assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "default"), "utf8")), { password: first });

  const db = await connect({ connection: await server.database(), clock: systemClock, log: silentLog });
  try {
    assert.ok((await tablesThatHold(db, ["Carts"])).includes("fleet"), "the search finds what is there");
    assert.deepEqual(await tablesThatHold(db, secrets), []);
  } finally {
    await db.close();
  }
  await robot.program.stop();
  await server.program.stop();
  said.push(server.program.output, robot.program.output);
  assert.deepEqual(
    secrets.filter((secret) => said.some((words) => words.includes(secret))),
    [],
  );
  assert.deepEqual(filesWithSecrets(server.data, secrets), []);
  assert.deepEqual(filesWithSecrets(robot.state, secrets).toSorted(), ["configs/cloud.json", "configs/default.json"]);
});

test(
  "operators cannot set secrets, and secrets need the key with which they were encrypted",
  { ...LIMIT, skip: oneNodeOnly("the secrets key of one server") },
  async () => {
    const old_key = "11".repeat(32);
    const new_key = "22".repeat(32);
    await using server = await ServerProcess.start();
    server.env.ROAMFLEET_SECRETS_KEY = old_key;
    await server.program.stop();
    await server.restart();
    const { api } = await server.org("Sealed");
    const { fleet_id, key } = await makeSite(api);
    await using robot = new AgentProcess({ url: server.url, key, name: "cart-1" });
    const robot_id = await until(
      "the robot to be online",
      async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
    );
    const secret = { key: "password", secret: true };
    const at_fleet = { scope: "fleet", scope_id: fleet_id } as const;
    const { id } = (await api.setConfig({ body: { ...secret, ...at_fleet, value: "one" } })).data;
    const { token } = (await api.createToken({ body: { label: "operator", role: "operator" } })).data;
    const operator = createClient({ base_url: server.url, token: token ?? "" });
    const status = (asked: Promise<unknown>): Promise<unknown> =>
      asked.then(
        () => 200,
        (error: { status: number }) => error.status,
      );
    assert.equal(await status(operator.setConfig({ body: { ...secret, ...at_fleet, value: "two" } })), 403);
    assert.equal(await status(operator.setConfig({ body: { key: "password", ...at_fleet, value: "two" } })), 409);
    assert.equal(await status(operator.setConfig({ body: { key: "password", scope: "robot", scope_id: robot_id, value: "two" } })), 409);
    assert.equal(await status(operator.rollBackConfig({ params: { id }, body: { version: 1 } })), 403);
    assert.equal(await status(operator.setConfig({ body: { key: "speed", ...at_fleet, value: 1 } })), 200);

    server.env.ROAMFLEET_SECRETS_KEY = `${new_key},${old_key}`;
    await server.program.stop();
    await server.restart();
    server.env.ROAMFLEET_SECRETS_KEY = new_key;
    await server.program.stop();
    await server.restart();
    await back(api, robot);
    await deployed(api, { robot_id });
    assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "default"), "utf8")), { password: "one", speed: 1 });

    server.env.ROAMFLEET_SECRETS_KEY = "33".repeat(32);
    await server.program.stop();
    await server.restart();
    assert.match(server.program.output, /secrets cannot be read/);
    assert.equal(
      await status(
        createClient({
          base_url: server.url,
          token: (await api.createToken({ body: { label: "a", role: "admin" } })).data.token ?? "",
          retries: 0,
        }).rollBackConfig({ params: { id }, body: { version: 1 } }),
      ),
      503,
    );
    // Values that are set from now on can be decrypted again.
    assert.equal((await api.setConfig({ body: { ...secret, ...at_fleet, value: "three" } })).data.version, 2);
    await back(api, robot);
    await deployed(api, { robot_id });
    assert.deepEqual(JSON.parse(readFileSync(fileOf(robot, "default"), "utf8")), { password: "three", speed: 1 });
  },
);

test("reports a secret config file edited on the robot as drift until the next config deployment", LIMIT, async () => {
  await using server = await ServerProcess.start();
  const { api, token } = await server.org("Drifting");
  const { fleet_id, key } = await makeSite(api);
  await using robot = new AgentProcess({ url: server.url, key, name: "cart-1" });
  const robot_id = await until("the robot to be online", async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id);
  await api.setConfig({ body: { key: "speed", value: 1, scope: "fleet", scope_id: fleet_id } });
  await deployed(api, { robot_id });
  const file = fileOf(robot, "default");
  const state = async (): Promise<string> => (await api.getRobot({ params: { id: robot_id } })).data.config_state;
  await until("the file to be reported", async () => ((await state()) === "in_sync" ? true : undefined));
  writeFileSync(file, '{"speed": 9}\n');
  // The agent checks its files every 30 s, and when it connects.
  await back(api, robot);
  await until("the drift to be reported", async () => ((await state()) === "drifted" ? true : undefined));
  await using home = await RfHome.make();
  await home.run(["login", "--base-url", server.url, "--token", token]);
  assert.match(
    (await home.run(["configs", "effective", "--robot", robot_id])).stdout,
    /File default: drifted, changed or removed on the robot/,
  );
  assert.match((await home.run(["robots", "list"])).stdout, /drifted/);
  assert.equal(readFileSync(file, "utf8"), '{"speed": 9}\n');
  const put_back = await home.run(["configs", "deploy", "--robot", robot_id, "--watch"]);
  assert.equal(put_back.code, 0, put_back.stderr);
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), { speed: 1 });
  await until("the file to be reported", async () => ((await state()) === "in_sync" ? true : undefined));
});
