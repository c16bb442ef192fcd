import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LINES = 200;
const ROUNDS = 3;
const ROBOTS = ["cart-1", "cart-2"] as const;

test("rf prints each record of a followed fleet log once while the server is killed and restarted", { timeout: 300_000 }, async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-follow-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  await using server = await ServerProcess.start({ nodes: 1 });
  const { api, token } = await server.org("Followed");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await using robots = new AsyncDisposableStack();
  for (const name of ROBOTS) {
    const config = path.join(directory, `${name}.yaml`);
    writeFileSync(path.join(directory, `${name}.log`), "");
    writeFileSync(config, `logs:\n  journald: off\n  rosout: off\n  files: ["${path.join(directory, `${name}.log`)}"]\n`, { mode: 0o600 });
    robots.use(new AgentProcess({ url: server.url, key: key ?? "", name, args: ["--config", config] }));
  }
  const online = async (): Promise<boolean> => (await api.listRobots({ query: { status: "online" } })).items.length === ROBOTS.length;
  await until("the robots", online);

  let count = 0;
  const write = (): void => {
    const numbers = Array.from({ length: LINES }, (_, i) => count + i + 1);
    count += LINES;
    for (const name of ROBOTS)
      appendFileSync(path.join(directory, `${name}.log`), numbers.map((number) => `line ${number} of ${name}\n`).join(""));
  };
  await using home = await RfHome.make();
  let [out, rf] = ["", undefined as ChildProcess | undefined];
  const followed = home.run(["fleets", "logs", fleet_id, "--follow", "--grep", "line"], {
    env: { ROAMFLEET_BASE_URL: server.url, ROAMFLEET_TOKEN: token },
    on_output: (child, text) => {
      rf = child;
      out += text;
    },
  });
  const numbersOf = (name: string): number[] =>
    Array.from(out.matchAll(new RegExp(`line (\\d+) of ${name}\n`, "g")), ([, number]) => Number(number));
  const printed = (): Promise<unknown> =>
    until("rf to print the last lines", () => ROBOTS.every((name) => numbersOf(name).includes(count)), {
      deadline_ms: ROBOT_BACK_MS,
      progress: () => out.length,
    });
  appendFileSync(path.join(directory, `${ROBOTS[0]}.log`), "a line that shows that rf follows\n");
  await until("rf to follow", () => out.includes("shows that rf follows"));
  for (let round = 0; round < ROUNDS; round += 1) {
    write();
    // In half of the rounds, the server is killed while records are in transit.
    if (round % 2 === 1) await printed();
    await server.program.kill();
    write();
    await server.restart();
    write();
    await printed();
  }
  rf?.kill("SIGINT");
  assert.equal((await followed).code, 130);
  for (const name of ROBOTS)
    assert.deepEqual(
      numbersOf(name),
      Array.from({ length: count }, (_, i) => i + 1),
      name,
    );
});
