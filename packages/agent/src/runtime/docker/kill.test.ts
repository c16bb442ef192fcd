import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { ArtifactServer } from "../../testing/artifact-server.ts";
import { containersOf, SKIP, useEngine } from "../../testing/container-rig.ts";
import { desiredApp } from "../../testing/deployments-rig.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";
import type { KillDriverTask } from "../../testing/kill-driver.ts";
import { end, finalStatus, killEverywhere, runKilledAt, startAgent } from "../../testing/killed-agents.ts";

const VERIFY = 0.3;
/** More kill points than any run has. */
const PLACES = { places_max: 60, parallel: 3 };
const LIMIT = { timeout: 600_000, skip: SKIP };
const engine = useEngine();

interface Outcome {
  status: "applied" | "rolled_back";
  manifest: Record<string, unknown>;
  last_place: string;
  runs: "v1" | "v2";
}

const GOOD: Outcome = { status: "applied", manifest: {}, last_place: "container.old_stopped", runs: "v2" };
/** The last kill point is after the bad image is untagged. */
const BAD: Outcome = {
  status: "rolled_back",
  manifest: { health: { command: ["false"] } },
  last_place: "container.image_untagged",
  runs: "v1",
};

/** Kills the agent at one point of installing the second image, restarts it, and checks the outcome. Returns false if the run had no such point. */
async function killAt(place: number, server: ArtifactServer, { status, manifest, last_place, runs }: Outcome): Promise<boolean> {
  const state = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-kill-")));
  // Each run uses a new image, since the engine does not load an image that it already has.
  const image = await shellImage(`# ${state}\n${STAYS_UP}`);
  const first = await imageRelease("v1", await shellImage(STAYS_UP), {}, server);
  const second = await imageRelease("v2", image, manifest, server);
  const task = (release: DesiredRelease, generation: number): Omit<KillDriverTask, "kill_at"> => ({
    state,
    origin: server.origin,
    desired: { type: "desired", generation, apps: { main: desiredApp(release, `tgt_${release.tag}`, 1, VERIFY) }, configs: {} },
    places: "container.",
    config: { container_sockets: [engine().socket], stop_workloads: false },
  });
  let child = startAgent({ ...task(first.release, 1), kill_at: 0 });
  try {
    await until("the first image to be applied", () => finalStatus(state, "tgt_v1") === "applied");
    await end(child, "SIGKILL");
    const run = { task: task(second.release, 2), target_id: "tgt_v2", last_place, status };
    const again = await runKilledAt(place, run);
    child = again.child;
    let seen = "";
    const look = async (): Promise<boolean> => {
      seen = (await containersOf(engine(), state)).map((one) => `${one.tag} ${one.state}`).join();
      return seen === `${runs} running`;
    };
    await until(`${runs} to run alone after place ${place}`, look, { detail: () => seen });
    return again.killed;
  } finally {
    await end(child, "SIGKILL");
    for (const { id } of await containersOf(engine(), state)) await engine().ask("DELETE", `/containers/${id}?force=1`);
    fs.rmSync(state, { recursive: true, force: true });
  }
}

async function placesOf(outcome: Outcome): Promise<number> {
  await using server = await ArtifactServer.start();
  return await killEverywhere(PLACES, (place) => killAt(place, server, outcome));
}

test("an agent killed at any step of a successful image deployment resumes and applies the image", LIMIT, async (t) => {
  const places = await placesOf(GOOD);
  t.diagnostic(`${places} places`);
  assert.ok(places >= 8);
});

test("an agent killed at any step of a failing image deployment resumes and rolls back", LIMIT, async (t) => {
  const places = await placesOf(BAD);
  t.diagnostic(`${places} places`);
  assert.ok(places >= 10);
});
