import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { processesWithEnvironment } from "../runtime/processes.ts";
import { ArtifactServer } from "../testing/artifact-server.ts";
import { shellRelease, type TestRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, desiredApp } from "../testing/deployments-rig.ts";
import { end, type KilledRun, killEverywhere, runKilledAt } from "../testing/killed-agents.ts";

const VERIFY = 0.1;
/** `places_max` is higher than the number of kill points in any run. */
const PLACES = { places_max: 200, parallel: 4 };

/** Returns the tags of the app's running releases: one for each leader of a process group. */
function runningTags(state: string): string[] {
  const mine = { ROAMFLEET_APP: "main", ROAMFLEET_CONFIG_DIR: path.join(state, "configs") };
  return ["v1", "v2"].flatMap((tag) =>
    processesWithEnvironment({ ...mine, ROAMFLEET_RELEASE: tag })
      .filter(({ pid, group }) => pid === group)
      .map(() => tag),
  );
}

interface Case extends Omit<KilledRun, "task"> {
  /** The state directory of a robot on which v1 has been applied. */
  base: string;
  task: Omit<KilledRun["task"], "state">;
}

/** Kills a process group, which may have ended already. */
function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Kills the agent at one point on a copy of `base`, restarts it, and checks the outcome. Returns false if the run had fewer points. */
async function killAt(place: number, { base, ...run }: Case): Promise<boolean> {
  const state = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-kill-")));
  fs.cpSync(base, state, { recursive: true, verbatimSymlinks: true });
  const wanted = run.status === "applied" ? "v2" : "v1";
  try {
    const { child, killed } = await runKilledAt(place, { ...run, task: { ...run.task, state } });
    try {
      await until(`${wanted} to run alone after place ${place}`, () => runningTags(state).join() === wanted);
      assert.equal(path.basename(fs.readlinkSync(path.join(state, "apps/main/current"))), `rel_${wanted}`);
    } finally {
      await end(child, "SIGTERM");
    }
    return killed;
  } finally {
    for (const { group } of processesWithEnvironment({ ROAMFLEET_CONFIG_DIR: path.join(state, "configs") })) killGroup(group);
    fs.rmSync(state, { recursive: true, force: true });
  }
}

/** Returns the number of kill points in a deployment of `second` to a robot that runs v1. */
async function placesOf(second: TestRelease, status: string): Promise<number> {
  await using server = await ArtifactServer.start();
  server.add(second.bytes);
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL), { verify_seconds: VERIFY }));
  await rig.deployments.stop();
  const target_id = "tgt_v2";
  const apps = { main: desiredApp(second.release, target_id, 1, VERIFY) };
  const task: Case["task"] = { origin: server.origin, desired: { type: "desired", generation: 1, apps, configs: {} } };
  const run: Case = { base: rig.state, task, target_id, last_place: "finish.after_report", status };
  const places = await killEverywhere(PLACES, (place) => killAt(place, run));
  await rig.boot();
  return places;
}

test("an agent killed at any step of a successful deployment resumes and applies the new release", { timeout: 600_000 }, async () => {
  assert.ok((await placesOf(await shellRelease("v2", WELL), "applied")) >= 20);
});

test("an agent killed at any step of a failing deployment resumes and rolls back", { timeout: 600_000 }, async () => {
  const sick = await shellRelease("v2", WELL, { health: { command: ["sh", "-c", "exit 1"] } });
  assert.ok((await placesOf(sick, "rolled_back")) >= 25);
});
