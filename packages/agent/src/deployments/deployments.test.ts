import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { releaseOf, shellRelease, tarGz, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, desiredApp } from "../testing/deployments-rig.ts";

const options = { timeout: 120_000 };
/** A crash loop is reported at the third exit, well before the end of this time. */
const UNTIL_IT_CRASHED = { verify_seconds: 50 };

test("a deployment reports each phase in order from downloading to applied", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  const target = rig.deploy(one);
  const end = await rig.ended(target);
  assert.equal(end.status, "applied");
  assert.deepEqual(rig.statuses(target), ["downloading", "staged", "installing", "verifying", "applied"]);
  assert.equal(rig.current(), "rel_v1");
  assert.equal(rig.processes("main", "v1").length, 1);
  assert.deepEqual(rig.deployments.workloads(), [{ app: "main", kind: "app_bundle", status: "running", restarts: 0, release_tag: "v1" }]);
  assert.deepEqual(rig.reports.filter(({ kind }) => kind === "app").at(-1), {
    kind: "app",
    app: "main",
    release_id: "rel_v1",
    previous_release_id: null,
    status: "running",
  });
  await until("its words", () => rig.logs.some((one) => one.source === "main" && one.level === "info" && one.message === "up v1"));
  assert.deepEqual(fs.readdirSync(path.join(rig.state, "downloads")), []);
});

test("keeps the current and the previous release on disk, so a rollback needs no download", options, async () => {
  await using rig = await DeploymentsRig.start();
  for (const tag of ["v1", "v2", "v3"]) assert.equal((await rig.ended(rig.deploy(await shellRelease(tag, WELL)))).status, "applied");
  assert.deepEqual(fs.readdirSync(path.join(rig.state, "apps/main/versions")).toSorted(), ["rel_v2", "rel_v3"]);
  assert.equal(rig.processes("main").length, 1);
  assert.equal(rig.processes("main", "v3").length, 1);
  // The previous release is still on disk: a rollback needs no download.
  const before = rig.server.requests.length;
  assert.equal((await rig.ended(rig.deploy(await shellRelease("v2", WELL), { target: "tgt_back" }))).status, "applied");
  assert.equal(rig.server.requests.length, before);
});

test("rolls back to the previous release when the new one is unhealthy", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const sick = await shellRelease("v2", WELL, { health: { command: ["sh", "-c", "echo no motor; exit 3"] } });
  const target = rig.deploy(sick);
  const end = await rig.ended(target);
  assert.equal(end.status, "rolled_back");
  assert.equal(end.reason, "health_check_failed");
  assert.match(end.message ?? "", /exited with 3: no motor; release v1 runs again/);
  assert.deepEqual(rig.statuses(target), ["downloading", "staged", "installing", "verifying", "rolling_back", "rolled_back"]);
  assert.equal(rig.current(), "rel_v1");
  assert.equal(rig.processes("main", "v1").length, 1);
  assert.equal(rig.processes("main", "v2").length, 0);
  assert.deepEqual(fs.readdirSync(path.join(rig.state, "apps/main/versions")), ["rel_v1"]);
});

test("a release that keeps exiting is rolled back with crash_loop and its exit code", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const end = await rig.ended(rig.deploy(await shellRelease("v2", "echo dying >&2; exit 7"), UNTIL_IT_CRASHED));
  assert.deepEqual([end.status, end.reason], ["rolled_back", "crash_loop"]);
  assert.match(end.message ?? "", /exited with 7/);
  assert.ok(rig.logs.some(({ source, level, message }) => source === "main" && level === "error" && message === "dying"));
  assert.equal(rig.processes("main", "v1").length, 1);
});

test("stops and removes the release when a first install fails its health check", options, async () => {
  await using rig = await DeploymentsRig.start();
  const end = await rig.ended(rig.deploy(await shellRelease("v1", WELL, { health: { file: { path: "alive", max_age_seconds: 1 } } })));
  assert.deepEqual([end.status, end.reason], ["failed", "health_check_failed"]);
  assert.match(end.message ?? "", /alive does not exist.*no earlier release/);
  assert.deepEqual(rig.processes("main"), []);
  assert.ok(!fs.existsSync(path.join(rig.state, "apps/main")));
  assert.deepEqual(rig.reports.filter(({ kind }) => kind === "app").at(-1), {
    kind: "app",
    app: "main",
    release_id: null,
    previous_release_id: null,
    status: "stopped",
  });
});

test("rejects a release of an unsupported kind as incompatible without stopping the running release", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const [pid] = rig.processes("main");
  const end = await rig.ended(rig.deploy(releaseOf("v2", Buffer.from("x"), { kind: "container_image" })));
  assert.deepEqual([end.status, end.reason], ["failed", "incompatible"]);
  assert.deepEqual(rig.processes("main"), [pid]);
});

test("a bad release of one app does not affect the other app's process", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("a1", WELL), { app: "arm" }));
  await rig.ended(rig.deploy(await shellRelease("b1", WELL), { app: "base" }));
  const arm = rig.processes("arm");
  const end = await rig.ended(rig.deploy(await shellRelease("b2", "exit 1"), { app: "base", ...UNTIL_IT_CRASHED }));
  assert.equal(end.status, "rolled_back");
  assert.equal(arm.length, 1);
  assert.deepEqual(rig.processes("arm"), arm);
});

test("rejects a manifest without a start command and keeps the old release running", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const before = rig.processes("main");
  const end = await rig.ended(rig.deploy(releaseOf("v2", await tarGz([{ name: "roamfleet.json", content: "{}" }]))));
  assert.deepEqual([end.status, end.reason, end.message], ["failed", "rejected_by_robot", "manifest: start is missing"]);
  assert.deepEqual(rig.processes("main"), before);
});

test("deploying the release that already runs reports already_installed without a restart", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  await rig.ended(rig.deploy(one));
  const before = rig.processes("main");
  const end = await rig.ended(rig.deploy(one, { target: "tgt_again" }));
  assert.deepEqual([end.status, end.reason], ["applied", "already_installed"]);
  assert.deepEqual(rig.processes("main"), before);
});

test("repeats a finished target only if the server sends a higher attempt number", options, async () => {
  await using rig = await DeploymentsRig.start();
  const bad = await shellRelease("v1", "exit 1");
  const target = rig.deploy(bad, UNTIL_IT_CRASHED);
  await rig.ended(target);
  const told = rig.statuses(target).length;
  rig.deploy(bad, UNTIL_IT_CRASHED);
  assert.deepEqual(rig.statuses(target).slice(told), ["failed"]);
  // A higher attempt number starts the target again.
  rig.deploy(bad, { attempt: 2, ...UNTIL_IT_CRASHED });
  await until("the second attempt", () => rig.targetReports(target).some(({ attempt, status }) => attempt === 2 && status === "failed"));
});

test("aborts a download and reports it as cancelled when its target is no longer desired", options, async () => {
  await using rig = await DeploymentsRig.start();
  rig.server.trouble = ({ path: asked }) => (asked.startsWith("/agent/artifacts/") ? "hang" : undefined);
  const target = rig.deploy(await shellRelease("v1", WELL));
  await until("the request", () => rig.server.requests.length > 0);
  rig.want({});
  assert.equal((await rig.ended(target)).status, "cancelled");
  rig.server.trouble = () => undefined;
  assert.equal((await rig.ended(rig.deploy(await shellRelease("v2", WELL)))).status, "applied");
});

test("finishes verifying a superseded release before downloading the newer one", options, async () => {
  await using rig = await DeploymentsRig.start();
  const first = rig.deploy(await shellRelease("v1", WELL), { verify_seconds: 1 });
  await until("verification", () => rig.statuses(first).includes("verifying"));
  const second = rig.deploy(await shellRelease("v2", WELL));
  assert.equal((await rig.ended(second)).status, "applied");
  assert.equal(rig.statuses(first).at(-1), "applied");
  const order = rig.reports.flatMap((body) => (body.kind === "target" ? [`${body.target_id} ${body.status}`] : []));
  assert.ok(order.indexOf(`${first} applied`) < order.indexOf(`${second} downloading`));
});

test("continues a target in progress under a higher attempt number without restarting it", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  const target = rig.deploy(one, { verify_seconds: 3 });
  await until("verification", () => rig.statuses(target).includes("verifying"));
  rig.deploy(one, { verify_seconds: 3, attempt: 2 });
  assert.deepEqual(rig.targetReports(target).at(-1), {
    kind: "target",
    target_id: target,
    deployment_id: `dep_of_${target}`,
    attempt: 2,
    status: "verifying",
  });
  await rig.ended(target);
  assert.equal(rig.targetReports(target).at(-1)?.attempt, 2);
  assert.equal(rig.statuses(target).filter((status) => status === "installing").length, 1);
});

test("installs and removes an app without target reports if the desired state names no target", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  rig.server.add(one.bytes);
  rig.want({ main: desiredApp(one.release, null) });
  await until("the app report", () =>
    rig.reports.some((body) => body.kind === "app" && body.release_id === "rel_v1" && body.status === "running"),
  );
  rig.want({ main: desiredApp(null, null) });
  await until("the removal", () => rig.reports.some((body) => body.kind === "app" && body.release_id === null));
  assert.deepEqual(rig.processes("main"), []);
  assert.ok(!fs.existsSync(path.join(rig.state, "apps/main")));
  assert.deepEqual(
    rig.reports.filter(({ kind }) => kind === "target"),
    [],
  );
});

test("a killed workload is restarted, and the restart is counted", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const [pid] = rig.processes("main");
  process.kill(pid!, "SIGKILL");
  await until("another process", () => rig.processes("main").some((other) => other !== pid));
  assert.equal(rig.deployments.workloads()[0]?.restarts, 1);
});

test("a program keeps its pid when the agent is stopped and started, and is still supervised", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { stop_workloads: false } });
  await rig.ended(rig.deploy(await shellRelease("v1", WELL.replace("while", "echo begun; while"))));
  const [pid] = rig.processes("main");
  for (let round = 0; round < 2; round += 1) {
    await rig.deployments.stop();
    assert.deepEqual(rig.processes("main"), [pid]);
    await rig.boot();
    await until("the program to be adopted", () => rig.deployments.workloads()[0]?.status === "running");
    assert.deepEqual(rig.processes("main"), [pid]);
  }
  process.kill(pid!, "SIGKILL");
  await until("the restart", () => rig.processes("main").some((other) => other !== pid));
  assert.equal(rig.deployments.workloads()[0]?.restarts, 1);
  await until("the new program's output", () => rig.logs.filter(({ message }) => message === "begun").length === 2);
  assert.equal(rig.logs.filter(({ message }) => message === "main ended by SIGKILL; it is started again").length, 1);
  const [second] = rig.processes("main");
  await rig.deployments.stop();
  await rig.boot();
  assert.equal((await rig.ended(rig.deploy(await shellRelease("v2", WELL)))).status, "applied");
  assert.ok(!rig.processes("main").includes(second!));
  assert.equal(rig.processes("main").length, 1);
});

test("a program that ended while no agent ran is started again, and its output and exit status are logged", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { stop_workloads: false } });
  const script =
    'echo up; while [ ! -e "$ROAMFLEET_CONFIG_DIR/../end" ]; do sleep 0.02; done; echo last words; printf "no line break"; exit 7';
  await rig.ended(rig.deploy(await shellRelease("v1", script)));
  const [pid] = rig.processes("main");
  await rig.deployments.stop();
  fs.writeFileSync(path.join(rig.state, "end"), "");
  await until("its end", () => rig.processes("main").length === 0);
  fs.rmSync(path.join(rig.state, "end"));
  await rig.boot();
  await until("the next program", () => rig.processes("main").some((other) => other !== pid));
  await until("its output", () => rig.logs.filter(({ message }) => message === "up").length === 2);
  const lines = rig.logs.filter(({ source }) => source === "main").map(({ message }) => message);
  assert.deepEqual(lines, ["up", "last words", "no line break", "up"]);
  assert.ok(rig.logs.some(({ message }) => message === "main exited with 7 while no agent ran"));
});

test("an agent with --stop-workloads stops its workloads, and the next start runs them again", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  await rig.deployments.stop();
  assert.deepEqual(rig.processes("main"), []);
  await rig.boot();
  await until("the release", () => rig.processes("main", "v1").length === 1);
  rig.deployments.announce();
  assert.equal(rig.targetReports("tgt_v1").at(-1)?.status, "applied");
});

test("an artifact too large for the disk is refused before the download", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  const end = await rig.ended(rig.deploy({ ...one, release: { ...one.release, artifact_size: 2 ** 50 } }));
  assert.deepEqual([end.status, end.reason], ["failed", "insufficient_disk"]);
  assert.deepEqual(rig.server.requests, []);
});

test("retries a deployment after an unexpected error while planning its next step", options, async () => {
  await using rig = await DeploymentsRig.start();
  const one = await shellRelease("v1", WELL);
  rig.server.add(one.bytes);
  const closed = { ...desiredApp(one.release, "tgt_1"), policy: { verify_seconds: 0.2, install_from: 1, install_until: 2 } };
  rig.want({ main: closed });
  await until("the wait for its window", () => rig.statuses("tgt_1").includes("staged"));
  let looks = 0;
  const unreadable = {
    ...closed.policy,
    get install_from(): number {
      looks += 1;
      throw new Error("unreadable on purpose");
    },
  };
  rig.want({ main: { ...closed, policy: unreadable } });
  await until("the worker to read it", () => looks > 0);
  rig.want({ main: desiredApp(one.release, "tgt_1") });
  assert.equal((await rig.ended("tgt_1")).status, "applied");
});
