import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { createPackagesDirectory } from "../../packages/server/src/features/packages/testing/packages-directory.ts";
import { AgentVersions, ARCH, LaunchedAgent, VERSION } from "../processes/launched-agent.ts";
import { documentOf, RfHome } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000 };

/** Replaces the hosted tarball of this machine's architecture by an agent version that can run here. */
function hostAgent(directory: string, version: string, tarball: Buffer): void {
  const name = `roamfleet-agent_${version}_${ARCH}.tar.gz`;
  const file = path.join(directory, "manifest.json");
  const manifest = JSON.parse(readFileSync(file, "utf8")) as { commit: string; files: { name: string; size: number; sha256: string }[] };
  const entry = manifest.files.find((one) => one.name === name);
  assert.ok(entry !== undefined);
  Object.assign(entry, { size: tarball.length, sha256: hash("sha256", tarball) });
  manifest.commit = "test";
  writeFileSync(path.join(directory, name), tarball);
  writeFileSync(file, JSON.stringify(manifest));
}

test("rf agents upgrade installs the hosted agent version, a version from files or a released version", LIMIT, async () => {
  using versions = await AgentVersions.build();
  await using packages = await createPackagesDirectory("0.2.0");
  hostAgent(packages.directory, "0.2.0", versions.tarball("0.2.0"));
  await using server = await ServerProcess.start({ args: ["--packages", packages.directory] });
  const { api, token } = await server.org("upgrades");
  const site_id = (await api.createSite({ body: { name: "site" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "fleet", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: 1 } })).data;
  await using agent = new LaunchedAgent({ url: server.url, key: key ?? "", name: "cart", versions });
  await using home = await RfHome.make();
  const rf = async (...words: string[]) => {
    const result = await home.run(words, { env: { ROAMFLEET_BASE_URL: server.url, ROAMFLEET_TOKEN: token } });
    assert.equal(result.code, 0, `${words.join(" ")}: ${result.stderr}\n${agent.output.slice(-3_000)}`);
    return result;
  };
  const listed = async (...words: string[]) =>
    (documentOf(await rf("agents", "list", "--json", ...words)) as { items: Record<string, unknown>[] }).items.map(
      ({ version, outdated, release }) => [version, outdated, release],
    );
  await until("the robot to be online", async () => (await api.listRobots({})).items[0]?.status === "online", {
    detail: () => agent.output,
  });
  assert.deepEqual(await listed("--outdated"), [[VERSION, true, null]]);

  const flags = ["--fleet", fleet_id, "--verify", "0s", "--watch"];
  assert.match((await rf("agents", "upgrade", ...flags)).stdout, /applied/);
  await agent.runs("0.2.0");
  await until("the version to be listed", async () => (await listed())[0]?.[0] === "0.2.0");
  assert.deepEqual(await listed(), [["0.2.0", false, `agent-0.2.0-${ARCH}`]]);
  assert.deepEqual(await listed("--outdated"), []);

  // If the hosted version has not changed, its release exists already, and the robot does not restart its agent.
  const before = agent.agents();
  await rf("agents", "upgrade", ...flags);
  assert.deepEqual(agent.agents(), before);
  assert.equal((await api.listReleases({})).items.length, 1);

  const file = path.join(home.directory, "agent.tar.gz");
  writeFileSync(file, versions.tarball("0.3.0"));
  await rf("agents", "upgrade", ...flags, "--file", file);
  await agent.runs("0.3.0");
  await rf("agents", "upgrade", ...flags, "--to", "0.2.0");
  await agent.runs("0.2.0");
  assert.equal(agent.current, "0.2.0");
});
