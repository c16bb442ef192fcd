import assert from "node:assert/strict";
import { test } from "node:test";
import { RfHome } from "./testing/run-rf.ts";
import { type Script, ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };

/** Two robots have the name `twin`, and one has the name `arm-1`. Other robots do not exist. */
const robots: Script = ({ line }) => {
  const named = /^GET \/api\/robots\?q=(.+)$/.exec(line)?.[1];
  if (named !== undefined) {
    const all = ["rob_1", "rob_2", "rob_3"].map((id) => ({ id, name: id === "rob_3" ? "arm-1" : "twin" }));
    // As the server does: the text is a part of the name.
    return { body: { items: all.filter(({ name }) => name.includes(named)), next_cursor: null } };
  }
  if (line.includes("rob_3")) return { body: { data: { id: "rob_3" }, items: [], next_cursor: null } };
  return { status: 404, body: { error: { code: "not_found", message: "robot does not exist" } } };
};

test("a name is looked up only if no object has it as id", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(robots);
  const run = async (...words: string[]) => {
    service.asked.length = 0;
    const { code, stderr } = await home.run([...words, "--json"], { env: service.env });
    return { code, stderr, lines: [...service.lines] };
  };
  assert.deepEqual((await run("robots", "show", "rob_3")).lines, ["GET /api/robots/rob_3"]);
  const found = await run("robots", "show", "arm-1");
  assert.deepEqual([found.code, found.lines], [0, ["GET /api/robots/arm-1", "GET /api/robots?q=arm-1", "GET /api/robots/rob_3"]]);
  const part = await run("robots", "show", "arm");
  assert.deepEqual([part.code, part.lines], [5, ["GET /api/robots/arm", "GET /api/robots?q=arm"]]);
  const twins = await run("robots", "show", "twin");
  assert.equal(twins.code, 2);
  assert.match(twins.stderr, /2 robots are named twin\n.*Use an id: rob_1, rob_2\./);
  const id = await run("robots", "show", "rob_9");
  assert.deepEqual([id.code, id.lines], [5, ["GET /api/robots/rob_9"]]);
});

test("a repeatable option takes names and ids", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(({ line, body, ...rest }) => {
    if (line.startsWith("GET /api/fleets?q=")) return { body: { items: [{ id: "fleet_2", name: "Arms" }], next_cursor: null } };
    if (body.includes("Arms")) return { status: 400, body: { error: { code: "bad_request", message: "fleet Arms does not exist" } } };
    return line === "POST /api/tokens"
      ? { status: 201, body: { data: { id: "tok_1", token: "rf_org_1" } } }
      : robots({ line, body, ...rest });
  });
  const { code, stderr } = await home.run(
    ["tokens", "create", "ci", "--role", "viewer", "--fleet", "fleet_1", "--fleet", "Arms", "--json"],
    { env: service.env },
  );
  assert.equal(code, 0, stderr);
  assert.deepEqual(JSON.parse(service.asked.at(-1)?.body ?? "").scopes, [{ fleet_id: "fleet_1" }, { fleet_id: "fleet_2" }]);
});
