import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { SmallDisk } from "../../../../../tests/processes/small-disk.ts";
import {
  containersOf,
  imageReleases,
  registryRelease,
  runningTags,
  SKIP,
  startContainerRig,
  useEngine,
} from "../../testing/container-rig.ts";
import { DeploymentsRig } from "../../testing/deployments-rig.ts";
import { DockerEngine } from "../../testing/docker-engine.ts";
import { dockerArchive, imageRelease, ociArchive, shellImage, STAYS_UP, tarOf } from "../../testing/images.ts";
import { releaseOf } from "../../testing/bundles.ts";
import { Registry } from "../../testing/registry.ts";

const LIMIT = { timeout: 300_000, skip: SKIP };
const engine = useEngine();
const manifest = { host_network: true, stop_timeout_seconds: 1 };

test("loads docker and OCI image archives without replacing image tags on the robot", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  const archives = {
    docker: await dockerArchive(await shellImage(`# docker\n${STAYS_UP}`), ["robot-os:latest"]),
    oci: await ociArchive(await shellImage(`# oci\n${STAYS_UP}`, [], { gzip: true })),
  };
  for (const [tag, bytes] of Object.entries(archives)) {
    const end = await rig.ended(rig.deploy(releaseOf(tag, bytes, { kind: "container_image", manifest })));
    assert.deepEqual([end.status, end.message], ["applied", undefined], tag);
    assert.deepEqual(await runningTags(engine(), rig.state), [tag]);
  }
  const names = (await engine().images()).flatMap(({ RepoTags }) => RepoTags ?? []);
  assert.deepEqual(
    names.filter((name) => name.includes("robot-os")),
    [],
  );
  const bad = await rig.ended(rig.deploy(releaseOf("bad", randomBytes(2_000), { kind: "container_image", manifest })));
  assert.deepEqual([bad.status, bad.reason], ["failed", "rejected_by_robot"]);
  assert.deepEqual(await runningTags(engine(), rig.state), ["oci"]);
});

test("pulls an image by digest and never stores the registry login on disk", LIMIT, async () => {
  await using rig = await startContainerRig(engine());
  await using registry = await Registry.start();
  registry.login = { username: "robot", password: "secret-of-the-registry" };
  const image = registry.add(await shellImage(`# private\n${STAYS_UP}`, [], { gzip: true }));
  const release = registryRelease("v1", image, { registry_auth: registry.login });
  rig.deployments.learn({ type: "desired", generation: 1, apps: { main: { ...desiredOf(release.release) } }, configs: {} });
  const end = await rig.ended(rig.deploy(release));
  assert.deepEqual([end.status, end.message], ["applied", undefined]);
  assert.deepEqual(await imageReleases(engine(), rig.state), ["rel_v1"]);
  await rig.deployments.stop();
  const written = fs.readdirSync(rig.state, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { name, parentPath } of written)
    assert.ok(!fs.readFileSync(path.join(parentPath, name)).includes("secret-of-the-registry"), name);
  await rig.boot();
});

const desiredOf = (release: ReturnType<typeof registryRelease>["release"]) => ({
  release,
  target_id: null,
  deployment_id: null,
  attempt: 1,
  policy: { verify_seconds: 1 },
});

test("fails immediately and keeps the current release if the registry lacks the image", LIMIT, async () => {
  await using rig = await startContainerRig(engine(), {}, { timing: { download_tries: 1_000 } });
  await using registry = await Registry.start();
  await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(STAYS_UP), {}, rig.server)));
  const missing = `${registry.host}/robots/app@sha256:${"0".repeat(64)}`;
  const end = await rig.ended(rig.deploy(registryRelease("v2", missing)));
  assert.deepEqual([end.status, end.reason], ["failed", "download_failed"]);
  assert.match(end.message ?? "", /manifest unknown|not found/);
  const unnamed = await rig.ended(rig.deploy(registryRelease("v3", `${registry.host}/robots/app:latest`)));
  assert.deepEqual([unnamed.status, unnamed.reason], ["failed", "rejected_by_robot"]);
  assert.deepEqual(await runningTags(engine(), rig.state), ["v1"]);
});

test("retries a pull from an unreachable registry for a limited number of attempts", LIMIT, async () => {
  await using rig = await startContainerRig(engine(), {}, { timing: { download_tries: 6, retry_last_ms: 300 } });
  await using registry = await Registry.start();
  const image = async (name: string) =>
    registry.add(await shellImage(`# ${name}\n${STAYS_UP}`, [await tarOf([{ name: "map", content: randomBytes(300_000) }])]));
  registry.cut_blobs_after = 1_000;
  const target = rig.deploy(registryRelease("v1", await image("comes back")));
  await until("a layer to be interrupted", () => registry.requests.some(({ path: place }) => place.includes("/blobs/")));
  await registry.close();
  registry.cut_blobs_after = undefined;
  await registry.open();
  const end = await rig.ended(target);
  assert.deepEqual([end.status, end.message], ["applied", undefined]);
  const second = registryRelease("v2", await image("stays away"));
  await registry.close();
  const failed = await rig.ended(rig.deploy(second));
  assert.deepEqual([failed.status, failed.reason], ["failed", "download_failed"]);
  assert.match(failed.message ?? "", /in 6 attempts; the last error: .*refused/);
  assert.deepEqual(await runningTags(engine(), rig.state), ["v1"]);
});

test("a restart of the container engine during verification only delays the deployment", LIMIT, async () => {
  await using own = await DockerEngine.start();
  await using rig = await startContainerRig(own);
  for (const [tag, signal] of [
    ["v1", "SIGTERM"],
    ["v2", "SIGKILL"],
  ] as const) {
    const target = rig.deploy(await imageRelease(tag, await shellImage(`# ${tag}\n${STAYS_UP}`), {}, rig.server), { verify_seconds: 3 });
    await until("it to be verified", () => rig.statuses(target).includes("verifying"));
    await own.stop(signal);
    await own.restart();
    const end = await rig.ended(target);
    assert.deepEqual([end.status, end.message], ["applied", undefined], tag);
    assert.deepEqual(await runningTags(own, rig.state), [tag]);
  }
  // The engine itself restarts the containers. The agent then detects that they run.
  await own.stop();
  await own.restart();
  await until("it to run again", async () => (await runningTags(own, rig.state)).join() === "v2");
  await until("the agent to see it", () => rig.deployments.workloads()[0]?.status === "running");
});

test("fails the deployment if the engine stays down, and runs the previous release when it returns", LIMIT, async () => {
  await using own = await DockerEngine.start();
  await using rig = await startContainerRig(own, {}, { timing: { engine_wait_ms: 500 } });
  await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(STAYS_UP), {}, rig.server)));
  // Long, so that verification ends because of the engine.
  const watched = { verify_seconds: 600 };
  const target = rig.deploy(await imageRelease("v2", await shellImage(`# 2\n${STAYS_UP}`), {}, rig.server), watched);
  await until("it to be verified", () => rig.statuses(target).includes("verifying"));
  await own.stop();
  const end = await rig.ended(target);
  assert.deepEqual([end.status, end.reason], ["failed", "rollback_failed"]);
  assert.match(end.message ?? "", /did not respond again within 0.5 s/);
  await own.restart();
  await until("the old one to run again, alone", async () => (await runningTags(own, rig.state)).join() === "v1");
});

test("fails with insufficient_disk if the image does not fit on the engine's disk", LIMIT, async (t) => {
  using disk = SmallDisk.mount(160);
  if (disk === undefined) return t.skip("needs root to mount a small tmpfs");
  await using own = await DockerEngine.start({ place: disk.directory });
  await using rig = await startContainerRig(own);
  assert.equal((await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(STAYS_UP), {}, rig.server)))).status, "applied");
  const large = await shellImage(`# large\n${STAYS_UP}`, [await tarOf([{ name: "map", content: Buffer.alloc(90_000_000) }])]);
  const end = await rig.ended(rig.deploy(await imageRelease("v2", large, {}, rig.server)));
  assert.deepEqual([end.status, end.reason], ["failed", "insufficient_disk"]);
  assert.match(end.message ?? "", /the image needs \d+ bytes below/);
  // The compressed image would fit on the disk.
  const packed = await shellImage(`# packed\n${STAYS_UP}`, [await tarOf([{ name: "map", content: Buffer.alloc(200_000_000) }])], {
    gzip: true,
  });
  const second = await rig.ended(rig.deploy(await imageRelease("v3", packed, {}, rig.server)));
  assert.deepEqual([second.status, second.reason], ["failed", "insufficient_disk"]);
  assert.match(second.message ?? "", /the image needs more than \d+ bytes below .* unpacked/);
  assert.deepEqual(await runningTags(own, rig.state), ["v1"]);
});

test("announces the release kind container_image only once a container engine runs", LIMIT, async () => {
  const own = await DockerEngine.start();
  await own.stop();
  await using _ = own;
  await using rig = await DeploymentsRig.start({ config: { container_sockets: [own.socket] } });
  assert.ok(!rig.deployments.kinds.includes("container_image"));
  const early = await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(STAYS_UP), {}, rig.server)));
  assert.deepEqual([early.status, early.reason], ["failed", "incompatible"]);
  await own.restart();
  await until("the kind to be announced", () => rig.deployments.kinds.includes("container_image"));
  assert.equal((await rig.ended(rig.deploy(await imageRelease("v2", await shellImage(STAYS_UP), {}, rig.server)))).status, "applied");
  await rig.deployments.stop();
  assert.deepEqual(await runningTags(own, rig.state), []);
  await own.stop();
  await rig.boot();
  await own.restart();
  await until("what ran to run again", async () => (await runningTags(own, rig.state)).join() === "v2");
});

test("adopts a container that an earlier agent left, and recreates it if it is removed", LIMIT, async () => {
  await using rig = await startContainerRig(engine(), { stop_workloads: false });
  await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(`# kept\n${STAYS_UP}`), {}, rig.server)));
  await until("its output", () => rig.logs.some(({ message }) => message === "up v1"));
  const [one] = await containersOf(engine(), rig.state);
  await rig.deployments.stop();
  assert.deepEqual(await runningTags(engine(), rig.state), ["v1"]);
  await rig.boot({ container_sockets: [engine().socket] });
  await until("it to be taken over", () => rig.deployments.workloads()[0]?.status === "running");
  assert.equal((await containersOf(engine(), rig.state))[0]?.id, one?.id);
  await engine().ask("DELETE", `/containers/${one?.id}?force=1`);
  const [other] = await until("another one to run", async () => {
    const all = await containersOf(engine(), rig.state);
    return all[0]?.state === "running" && all;
  });
  assert.notEqual(other?.id, one?.id);
  // Removes the unused image as well, like `docker system prune -a`.
  const [image_id] = (await engine().images()).flatMap(({ Id, RepoTags }) =>
    RepoTags?.some((name) => name.includes("rel_v1")) ? [Id] : [],
  );
  // The agent may create another container of the image before the image is removed.
  await until("the image to be gone", async () => {
    for (const { id } of await containersOf(engine(), rig.state))
      await engine()
        .ask("DELETE", `/containers/${id}?force=1`)
        .catch(() => {});
    return engine()
      .ask("DELETE", `/images/${image_id}?force=1`)
      .then(
        () => true,
        () => false,
      );
  });
  await until("it to run of an image that was brought again", async () => {
    const all = await containersOf(engine(), rig.state);
    return all[0]?.state === "running" && all[0].id !== other?.id;
  });
  assert.equal(rig.logs.filter(({ message }) => message === "up v1").length >= 1, true);
});
