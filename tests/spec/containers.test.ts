import assert from "node:assert/strict";
import { hash, randomUUID } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { runningTags, SKIP, useEngine } from "../../packages/agent/src/testing/container-rig.ts";
import { dockerArchive, shellImage, STAYS_UP } from "../../packages/agent/src/testing/images.ts";
import { realRobot, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000, skip: SKIP };
const engine = useEngine();

test("release kind container_image is the default, and a robot runs its container", LIMIT, async () => {
  const plane = await sharedPlane();
  const robot = await realRobot(plane, "arm-1", ["--container-socket", engine().socket, "--allow-host-network"]);
  const { api } = plane;
  const archive = await dockerArchive(await shellImage(STAYS_UP));
  const manifest = { host_network: true, stop_timeout_seconds: 1 };
  const body = { tag: "image-1", artifact_sha256: hash("sha256", archive), artifact_size: archive.length, manifest };
  const { data: release } = await api.createRelease({ body });
  assert.equal(release.kind, "container_image");
  const stored = await api.request("PUT", `/api/releases/${release.id}/artifact`, { body: Uint8Array.from(archive) });
  assert.equal(stored.status, 200, await stored.text());
  const asked = { release: "image-1", robot_id: robot.id, rollout: { verify_seconds: 1 } };
  const { id } = (await api.createDeployment({ body: asked, idempotency_key: randomUUID() })).data;
  await until("the deployment to end", async () => (await api.getDeployment({ params: { id } })).data.finished_at !== null);
  assert.equal((await api.getDeployment({ params: { id } })).data.status, "applied");
  assert.deepEqual(await runningTags(engine(), robot.agent.state), ["image-1"]);
});
