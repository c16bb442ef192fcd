import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { until } from "@robofleet/clock/testing";
import type { DesiredApp, ReportBody } from "@robofleet/protocol/link";
import { processesWithEnvironment } from "../runtime/process-table.ts";
import { ArtifactServer } from "../testing/artifact-server.ts";
import { shellRelease, type TestRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, wish } from "../testing/deployments-rig.ts";
import { type KillDriverTask, outboxOf } from "../testing/kill-driver.ts";

/** What a run has left to do after its last report takes no longer, on a busy machine either. Waited for once a test, at its end. */
const MORE_PLACES_MS = 2_000;
const DRIVER = path.join(import.meta.dirname, "../testing/kill-driver.ts");
const VERIFY = 0.1;
/** More places than any run has: a run that survives this many would not have been killed at all. */
const PLACES_MAX = 200;
const PARALLEL = 4;
const FINAL = ["applied", "rolled_back", "failed", "cancelled"];

/** Dozens of agents are started: compiling their sources once each would be most of the time. */
const compile_cache = fs.mkdtempSync(path.join(os.tmpdir(), "robofleet-kill-cache-"));
after(() => fs.rmSync(compile_cache, { recursive: true, force: true }));

function run(task: KillDriverTask): ChildProcess {
  const env = { ...process.env, NODE_COMPILE_CACHE: compile_cache };
  return spawn(process.execPath, [DRIVER, JSON.stringify(task)], { stdio: ["ignore", "inherit", "inherit"], env });
}

function outbox(state: string): ReportBody[] {
  if (!fs.existsSync(outboxOf(state))) return [];
  return fs
    .readFileSync(outboxOf(state), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as ReportBody);
}

const finalStatus = (state: string): string | undefined =>
  outbox(state)
    .flatMap((body) => (body.kind === "target" && FINAL.includes(body.status) ? [body.status] : []))
    .at(-1);

/** Tags of what runs for the app: one for each leader of a process group. */
function runningTags(state: string): string[] {
  const mine = { ROBOFLEET_APP: "main", ROBOFLEET_CONFIG_DIR: path.join(state, "configs") };
  return ["v1", "v2"].flatMap((tag) =>
    processesWithEnvironment({ ...mine, ROBOFLEET_RELEASE: tag })
      .filter(({ pid, group }) => pid === group)
      .map(() => tag),
  );
}

interface Case {
  base: string;
  origin: string;
  app: DesiredApp;
  good: boolean;
}

/** Kills the agent at one place, starts it again, and looks. Answers false when the run had no such place. */
async function killAt(place: number, { base, origin, app, good }: Case): Promise<boolean> {
  const state = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "robofleet-kill-")));
  fs.cpSync(base, state, { recursive: true, verbatimSymlinks: true });
  const task = { state, origin, desired: { type: "desired", generation: 1, apps: { main: app }, configs: {} } } as const;
  let child = run({ ...task, kill_at: place });
  let killed = false;
  try {
    await until("the kill, or the end", () => child.signalCode !== null || finalStatus(state) !== undefined);
    // After the final report there are a few more places.
    if (child.signalCode === null) await Promise.race([once(child, "exit"), new Promise((resolve) => setTimeout(resolve, MORE_PLACES_MS))]);
    killed = child.signalCode === "SIGKILL";
    if (killed) child = run({ ...task, kill_at: 0 });
    const status = await until(`the end after a kill at place ${place}`, () => finalStatus(state));
    const wanted = status === "applied" ? "v2" : "v1";
    assert.equal(status, good ? "applied" : "rolled_back", `place ${place}`);
    await until(`${wanted} to run alone after place ${place}`, () => runningTags(state).join() === wanted);
    assert.equal(path.basename(fs.readlinkSync(path.join(state, "apps/main/current"))), `rel_${wanted}`);
  } finally {
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    for (const { group } of processesWithEnvironment({ ROBOFLEET_CONFIG_DIR: path.join(state, "configs") }))
      process.kill(-group, "SIGKILL");
    fs.rmSync(state, { recursive: true, force: true });
  }
  return killed;
}

async function killEverywhere(good: boolean, second: TestRelease): Promise<number> {
  await using server = await ArtifactServer.start();
  server.add(second.bytes);
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL), { verify_seconds: VERIFY }));
  await rig.deployments.stop();
  const one: Case = { base: rig.state, origin: server.origin, app: wish(second.release, "tgt_v2", 1, VERIFY), good };
  let next = 1;
  let places = PLACES_MAX;
  const work = async (): Promise<void> => {
    for (let place = next++; place < places; place = next++) {
      if (!(await killAt(place, one))) places = Math.min(places, place);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  await rig.boot();
  return places - 1;
}

test(
  "an agent killed between any two steps of a good deployment ends it applied, with the new version running alone",
  { timeout: 300_000 },
  async () => {
    assert.ok((await killEverywhere(true, await shellRelease("v2", WELL))) >= 20);
  },
);

test(
  "an agent killed between any two steps of a bad deployment ends it rolled back, with the old version running alone",
  { timeout: 300_000 },
  async () => {
    const sick = await shellRelease("v2", WELL, { health: { command: ["sh", "-c", "exit 1"] } });
    assert.ok((await killEverywhere(false, sick)) >= 25);
  },
);
