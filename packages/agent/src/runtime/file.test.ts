import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { releaseOf, shellRelease, type TestRelease } from "../testing/bundles.ts";
import { DeploymentsRig, desiredApp } from "../testing/deployments-rig.ts";

const options = { timeout: 120_000 };
let allowed: string;
beforeEach(() => {
  allowed = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-files-")));
});
afterEach(() => fs.rmSync(allowed, { recursive: true, force: true }));

const file = (tag: string, content: string, manifest: unknown = null): TestRelease =>
  releaseOf(tag, Buffer.from(content), { kind: "file", manifest });

test("a file without a manifest is installed below the state directory under the app's name", options, async () => {
  await using rig = await DeploymentsRig.start();
  const end = await rig.ended(rig.deploy(file("v1", "map 1"), { app: "map" }));
  assert.equal(end.status, "applied");
  assert.equal(fs.readFileSync(path.join(rig.state, "files/map"), "utf8"), "map 1");
  assert.equal((await rig.ended(rig.deploy(file("v2", "map 2"), { app: "map" }))).status, "applied");
  assert.equal(fs.readFileSync(path.join(rig.state, "files/map"), "utf8"), "map 2");
  assert.deepEqual(rig.deployments.workloads(), [{ app: "map", kind: "file", status: "running", restarts: 0, release_tag: "v2" }]);
});

test("installs a file release at its path only inside directories that the robot allows", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { file_directories: [allowed] } });
  const place = path.join(allowed, "sub/map.yaml");
  assert.equal((await rig.ended(rig.deploy(file("v1", "a", { path: place, mode: "0600" }), { app: "map" }))).status, "applied");
  assert.equal(fs.statSync(place).mode & 0o777, 0o600);
  fs.symlinkSync("/tmp", path.join(allowed, "way-out"));
  for (const [tag, elsewhere] of Object.entries({
    up: path.join(allowed, "../roamfleet-evil"),
    root: "/roamfleet-evil",
    link: path.join(allowed, "way-out/roamfleet-evil"),
    beside: `${allowed}-evil`,
  })) {
    const end = await rig.ended(rig.deploy(file(tag, "b", { path: elsewhere }), { app: "map" }));
    assert.deepEqual([tag, end.status, end.reason], [tag, "failed", "rejected_by_robot"]);
    assert.ok(!fs.existsSync(elsewhere));
  }
  assert.equal(fs.readFileSync(place, "utf8"), "a");
});

test("rejects a file release with a path on a robot that allows no directories", options, async () => {
  await using rig = await DeploymentsRig.start();
  const end = await rig.ended(rig.deploy(file("v1", "a", { path: path.join(allowed, "x") })));
  assert.deepEqual([end.status, end.reason], ["failed", "rejected_by_robot"]);
  assert.deepEqual(fs.readdirSync(allowed), []);
});

test("rolls a file back to its previous content when the reload command fails", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { file_directories: [allowed] } });
  const place = path.join(allowed, "map");
  const reload = { command: ["sh", "-c", `grep -q good ${place} || { echo cannot read map; exit 1; }`] };
  assert.equal((await rig.ended(rig.deploy(file("v1", "good", { path: place, reload }), { app: "map" }))).status, "applied");
  const end = await rig.ended(rig.deploy(file("v2", "bad", { path: place, reload }), { app: "map" }));
  assert.deepEqual([end.status, end.reason], ["rolled_back", "health_check_failed"]);
  assert.match(end.message ?? "", /cannot read map/);
  assert.equal(fs.readFileSync(place, "utf8"), "good");
});

test("moves a file release to its new path and restores the robot's original file on removal", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { file_directories: [allowed] } });
  const [one, two] = [path.join(allowed, "one"), path.join(allowed, "two")];
  fs.writeFileSync(two, "the robot's own");
  await rig.ended(rig.deploy(file("v1", "a", { path: one }), { app: "map" }));
  await rig.ended(rig.deploy(file("v2", "b", { path: two }), { app: "map" }));
  assert.ok(!fs.existsSync(one));
  assert.equal(fs.readFileSync(two, "utf8"), "b");
  rig.want({ map: desiredApp(null, null) });
  await until("the removal", () => fs.readFileSync(two, "utf8") === "the robot's own");
});

test("a file release can send a signal to the workload of an app", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(
    rig.deploy(await shellRelease("v1", 'trap "exit 0" TERM; trap "echo heard" USR1; echo ready; while :; do sleep 0.05; done')),
  );
  await until("the workload to listen", () => rig.logs.some(({ message }) => message === "ready"));
  await rig.ended(rig.deploy(file("m1", "map", { reload: { signal: "SIGUSR1" } }), { app: "map" }));
  await until("the workload to hear it", () => rig.logs.some(({ message }) => message === "heard"));
});
