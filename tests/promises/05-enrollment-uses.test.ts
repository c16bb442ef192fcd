import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Ledger } from "../crash/ledger.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";
import { Http } from "../spec/http.ts";

const AT_ONCE = 500;
const MAX_USES = 10;
const RUNS = promiseSize({ test: 3, full: 100 });
const RUNS_OVER_TWO = promiseSize({ test: 1, full: 100 });
const KILLED_RUNS = promiseSize({ test: 1, full: 20 });
const KILLS = 2;
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 3_600_000 }) };

const newPublicKeys = (): string[] => Array.from({ length: AT_ONCE }, () => randomBytes(32).toString("base64"));

test(`exactly ${MAX_USES} of ${AT_ONCE} concurrent robots enroll with a key for ${MAX_USES} (${RUNS} runs)`, LIMIT, (t) =>
  atOnce(t, 1, RUNS),
);

test(`exactly ${MAX_USES} of ${AT_ONCE} concurrent robots enroll on two nodes (${RUNS_OVER_TWO} runs)`, LIMIT, (t) =>
  atOnce(t, 2, RUNS_OVER_TWO),
);

async function atOnce(t: TestContext, nodes: number, runs: number): Promise<void> {
  await using plane = await startPlane({ nodes });
  const anonymous = new Http(plane, undefined);
  for (let run = 0; run < runs; run += 1) {
    const fleet_id = await plane.fleet();
    const key = await plane.enrollmentKey({ fleet_id, max_uses: MAX_USES });
    const replies = await Promise.all(newPublicKeys().map((public_key) => anonymous.post("/agent/enroll", { key, public_key })));
    assert.equal(replies.filter(({ status }) => status === 201).length, MAX_USES);
    assert.equal(replies.filter(({ status }) => status === 403).length, AT_ONCE - MAX_USES);
    assert.equal((await plane.api.listRobots({ query: { fleet_id } })).items.length, MAX_USES);
  }
  const where = nodes === 1 ? "one node" : `${nodes} nodes`;
  provePromise(
    t,
    5,
    `${AT_ONCE} enrollments at once on ${where} with a key for ${MAX_USES}: exactly ${MAX_USES} robots in each of ${runs} runs`,
  );
}

test(`at most ${MAX_USES} robots enroll, and no acknowledged one is lost, despite kill -9 (${KILLED_RUNS} runs)`, LIMIT, (t) =>
  withKills(t, 1),
);

test(`an enrollment key keeps its limit despite kill -9 of one of two nodes (${KILLED_RUNS} runs)`, LIMIT, (t) => withKills(t, 2));

async function withKills(t: TestContext, nodes: number): Promise<void> {
  await using database = await createTestDatabase();
  await using server = await ServerProcess.start({
    nodes,
    env: { DATABASE_URL: databaseUrl(database.connection) },
    args: ["--limit", "unknown_requests_per_minute=1000000"],
  });
  const { token } = await server.org("Enrollments");
  const desk = new Ledger(() => server.url, token);
  let kills = 0;
  const anonymous = new Ledger(
    () => server.url,
    undefined,
    () => kills,
  );
  const site = await desk.post("/api/sites", { name: "Yard" });
  for (let run = 0; run < KILLED_RUNS; run += 1) {
    const fleet = await desk.post("/api/fleets", { name: `Fleet ${run}`, site_id: site.id });
    const made = await desk.post("/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id, max_uses: MAX_USES });
    const key = String(made["key"]);
    let answered = 0;
    const replies = Promise.all(
      newPublicKeys().map(async (public_key) => {
        const answer = await anonymous.send("POST", "/agent/enroll", { key, public_key });
        answered += 1;
        return answer;
      }),
    );
    for (let kill = 1; kill <= KILLS; kill += 1) {
      // Kill the server when a few robots have received their response.
      await until("some answers", () => answered >= kill * 3 || answered === AT_ONCE);
      await server.program.kill();
      await server.restart();
      kills += 1;
    }
    const statuses = (await replies).map(({ status }) => status);
    // A robot whose first response was lost gets 200 for the repeated request.
    assert.equal(statuses.filter((status) => status === 201 || status === 200).length, MAX_USES);
    assert.equal(statuses.filter((status) => status === 403).length, AT_ONCE - MAX_USES);
    const { text } = await desk.send("GET", `/api/robots?fleet_id=${fleet.id}`);
    assert.equal((JSON.parse(text) as { items: unknown[] }).items.length, MAX_USES);
  }
  const who = nodes === 1 ? "the server" : `one of ${nodes} nodes`;
  provePromise(t, 5, `with ${kills} kill -9 of ${who} in between: exactly ${MAX_USES} robots in each of ${KILLED_RUNS} runs`);
}
