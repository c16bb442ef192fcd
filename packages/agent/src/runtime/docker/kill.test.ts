import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { until } from "@robofleet/clock/testing";
import type { DesiredRelease, ReportBody } from "@robofleet/protocol/link";
import { ArtifactServer } from "../../testing/artifact-server.ts";
import { containersOf, SKIP, useEngine } from "../../testing/container-rig.ts";
import { wish } from "../../testing/deployments-rig.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";
import { type KillDriverTask, outboxOf } from "../../testing/kill-driver.ts";

/** What a run has left to do after its last report takes no longer, on a busy machine either. Waited for once a test, at its end. */
const MORE_PLACES_MS = 2_000;
const DRIVER = path.join(import.meta.dirname, "../../testing/kill-driver.ts");
const VERIFY = 0.3;
/** More places than any run has. */
const PLACES_MAX = 60;
const PARALLEL = 3;
const LIMIT = { timeout: 300_000, skip: SKIP };
const engine = useEngine();

const compile_cache = fs.mkdtempSync(path.join(os.tmpdir(), "robofleet-kill-cache-"));
after(() => fs.rmSync(compile_cache, { recursive: true, force: true }));

function run(task: KillDriverTask): ChildProcess {
  const env = { ...process.env, NODE_COMPILE_CACHE: compile_cache };
  return spawn(process.execPath, [DRIVER, JSON.stringify(task)], { stdio: ["ignore", "inherit", "inherit"], env });
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

function finalStatus(state: string, target_id: string): string | undefined {
  if (!fs.existsSync(outboxOf(state))) return undefined;
  const lines = fs.readFileSync(outboxOf(state), "utf8").split("\n").filter(Boolean);
  const reports = lines.map((line) => JSON.parse(line) as ReportBody);
  return reports
    .flatMap((one) =>
      one.kind === "target" && one.target_id === target_id && /applied|rolled_back|failed/.test(one.status) ? [one.status] : [],
    )
    .at(-1);
}

/** Kills the agent at one place of bringing the second image, starts it again, and looks. False: the run had no such place. */
async function killAt(place: number, server: ArtifactServer, good: boolean): Promise<boolean> {
  const state = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "robofleet-kill-")));
  // Its own image each time: one that the engine has is not loaded again.
  const image = await shellImage(`# ${state}\n${STAYS_UP}`);
  const health = good ? {} : { health: { command: ["false"] } };
  const [first, second] = [
    (await imageRelease("v1", await shellImage(STAYS_UP), {}, server)).release,
    (await imageRelease("v2", image, health, server)).release,
  ];
  const task = (release: DesiredRelease, generation: number, kill_at: number): KillDriverTask => ({
    state,
    origin: server.origin,
    desired: { type: "desired", generation, apps: { main: wish(release, `tgt_${release.tag}`, 1, VERIFY) }, configs: {} },
    kill_at,
    places: "container.",
    config: { container_sockets: [engine().socket], keep_workloads: true },
  });
  let child = run(task(first, 1, 0));
  try {
    await until("the first image to be applied", () => finalStatus(state, "tgt_v1") === "applied");
    await kill(child);
    child = run(task(second, 2, place));
    await until("the kill, or the end", () => child.signalCode !== null || finalStatus(state, "tgt_v2") !== undefined);
    // After the final report there are a few more places.
    if (child.signalCode === null) await Promise.race([once(child, "exit"), new Promise((resolve) => setTimeout(resolve, MORE_PLACES_MS))]);
    const killed = child.signalCode === "SIGKILL";
    if (killed) child = run(task(second, 2, 0));
    const status = await until(`the end after a kill at place ${place}`, () => finalStatus(state, "tgt_v2"));
    assert.equal(status, good ? "applied" : "rolled_back", `place ${place}`);
    const wanted = `${good ? "v2" : "v1"} running`;
    let seen = "";
    await until(`${wanted} alone after place ${place}`, async () => {
      seen = (await containersOf(engine(), state)).map((one) => `${one.tag} ${one.state}`).join();
      return seen === wanted;
    }).catch((error: unknown) => assert.fail(`${String(error)}: ${seen}`));
    return killed;
  } finally {
    await kill(child);
    for (const { id } of await containersOf(engine(), state)) await engine().ask("DELETE", `/containers/${id}?force=1`);
    fs.rmSync(state, { recursive: true, force: true });
  }
}

async function killEverywhere(good: boolean): Promise<number> {
  await using server = await ArtifactServer.start();
  let next = 1;
  let places = PLACES_MAX;
  const work = async (): Promise<void> => {
    for (let place = next++; place < places; place = next++) if (!(await killAt(place, server, good))) places = Math.min(places, place);
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return places - 1;
}

test("an agent killed between any two steps of a good image ends it applied, with its container alone", LIMIT, async (t) => {
  const places = await killEverywhere(true);
  t.diagnostic(`${places} places`);
  assert.ok(places >= 8);
});

test("an agent killed between any two steps of a bad image ends it rolled back, with the old container alone", LIMIT, async (t) => {
  const places = await killEverywhere(false);
  t.diagnostic(`${places} places`);
  assert.ok(places >= 10);
});
