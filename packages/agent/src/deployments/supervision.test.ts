import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { userInfo } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { dataMessage, LOG_MESSAGE_CHARACTERS_MAX, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { buildHelloRobot, HELLO_VERSIONS } from "../../../../examples/hello-robot/build.ts";
import type { ProcessRecord } from "../runtime/hosts/process-record.ts";
import { groupMembers, readProcess, signalGroup } from "../runtime/processes.ts";
import { createShells } from "../streams/shell/index.ts";
import { releaseOf, shellRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, desiredApp } from "../testing/deployments-rig.ts";

const options = { timeout: 120_000 };
const [MOUNT, UMOUNT] = ["mount", "umount"];

test("an HTTP health check requires the status code that the manifest names", options, async () => {
  await using rig = await DeploymentsRig.start();
  let status = 204;
  const server = http.createServer((_request, response) => response.writeHead(status).end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const health = { http: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, expect_status: 204 } };
  assert.equal((await rig.ended(rig.deploy(await shellRelease("v1", WELL, { health })))).status, "applied");
  status = 500;
  await until("the workload to be shown as unhealthy", () => rig.deployments.workloads()[0]?.status === "unhealthy");
  const end = await rig.ended(rig.deploy(await shellRelease("v2", WELL, { health })));
  assert.deepEqual([end.status, end.reason], ["rolled_back", "health_check_failed"]);
  assert.match(end.message ?? "", /returned status 500, expected 204/);
  server.closeAllConnections();
  server.close();
});

test("a health command that hangs is killed with its children and counts as unhealthy", options, async () => {
  await using rig = await DeploymentsRig.start({ tuning: { timing: { probe_timeout_ms: 100 } } });
  const end = await rig.ended(rig.deploy(await shellRelease("v1", WELL, { health: { command: ["sh", "-c", "sleep 60 & sleep 60"] } })));
  assert.match(end.message ?? "", /did not end within 100 ms/);
  assert.deepEqual(rig.processes("main"), []);
});

test("a release whose program cannot start fails as a crash loop that names the program", options, async () => {
  await using rig = await DeploymentsRig.start();
  const end = await rig.ended(rig.deploy(await shellRelease("v1", WELL, { start: ["./not-there"] })));
  assert.deepEqual([end.status, end.reason], ["failed", "crash_loop"]);
  assert.match(end.message ?? "", /could not be started: .*not-there/);
});

test("kills a program that ignores SIGTERM, and its children, after the stop timeout", options, async () => {
  await using rig = await DeploymentsRig.start();
  const stubborn = 'trap "" TERM; sleep 1000 & while :; do sleep 0.1; done';
  await rig.ended(rig.deploy(await shellRelease("v1", stubborn, { stop_timeout_seconds: 0.2 })));
  const [leader] = rig.processes("main");
  await until("its child", () => groupMembers(leader!).length >= 2);
  await rig.ended(rig.deploy(await shellRelease("v2", WELL)));
  assert.deepEqual(groupMembers(leader!), []);
  assert.equal(rig.processes("main").length, 1);
});

test("kills the remaining child processes of a crashed program before restarting it", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", `sleep 1000 & ${WELL}`)));
  const [leader] = rig.processes("main");
  await until("its child", () => groupMembers(leader!).length >= 2);
  process.kill(leader!, "SIGKILL");
  await until("the restart", () => rig.processes("main").some((pid) => pid !== leader));
  assert.deepEqual(groupMembers(leader!), []);
});

test("an agent finds a running workload by its environment variables if its pid was not stored", options, async () => {
  await using rig = await DeploymentsRig.start({ config: { stop_workloads: false } });
  await rig.ended(rig.deploy(await shellRelease("v1", WELL)));
  const [old] = rig.processes("main");
  await rig.deployments.stop();
  assert.deepEqual(rig.processes("main"), [old]);
  fs.rmSync(path.join(rig.state, "apps/main/process.json"));
  await rig.boot({ stop_workloads: true });
  await until("one new process", () => rig.processes("main").length === 1 && rig.processes("main")[0] !== old);
});

test("an agent killed while it removes an app ends the app's process after a restart", options, async () => {
  let stopped: Promise<void> | undefined;
  const on_step = (name: string): void => {
    if (name !== "journal.after.removing" || stopped !== undefined) return;
    stopped = rig.deployments.stop();
    throw new Error("the agent is killed");
  };
  await using rig = await DeploymentsRig.start({ config: { stop_workloads: false }, tuning: { on_step } });
  await rig.ended(rig.deploy(await shellRelease("v1", WELL, { start: ["env", "-i", "sh", "run.sh"] })));
  const directory = path.join(rig.state, "apps/main");
  const { pid } = JSON.parse(fs.readFileSync(path.join(directory, "process.json"), "utf8")) as ProcessRecord;
  try {
    rig.want({ main: desiredApp(null, null) });
    await until("the agent to be killed", () => stopped !== undefined);
    await stopped;
    assert.ok(readProcess(pid) !== undefined, "it runs without its agent");
    await rig.boot();
    await until("the removal", () => !fs.existsSync(directory) && rig.deployments.workloads().length === 0);
    assert.equal(readProcess(pid), undefined);
  } finally {
    signalGroup(pid, "SIGKILL");
  }
});

test("truncates an output line longer than a log record and states how many bytes are missing", options, async () => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(
    rig.deploy(await shellRelease("v1", `head -c 100000 /dev/zero | tr "\\\\0" x; echo; printf "caf\\\\303\\\\251\\\\n"; ${WELL}`)),
  );
  const long = await until("the long line", () => rig.logs.find(({ message }) => message.startsWith("xxx")));
  assert.equal(long.message.length, LOG_MESSAGE_CHARACTERS_MAX);
  assert.deepEqual(long.fields, { truncated_bytes: 100_000 - LOG_MESSAGE_CHARACTERS_MAX });
  await until("the line after it", () => rig.logs.some(({ message }) => message === "café"));
});

test("a workload's environment has only ROAMFLEET_* variables, the manifest's variables, PATH and locale", options, async () => {
  await using rig = await DeploymentsRig.start({
    config: { workload_environment: { PATH: "/usr/bin:/bin", LANG: "C.UTF-8", HTTPS_PROXY: "http://user:secret@proxy", AWS_SECRET: "1" } },
  });
  const script = `env; node -e 'console.log("node " + process.version)'; ${WELL}`;
  await rig.ended(rig.deploy(await shellRelease("v1", script, { env: { SPEED: "3" } }), { app: "arm" }));
  await until("the last line", () => rig.logs.some(({ message }) => message === "up v1"));
  const lines = rig.logs.map(({ message }) => message);
  for (const line of [
    "ROAMFLEET_APP=arm",
    "ROAMFLEET_RELEASE=v1",
    `ROAMFLEET_CONFIG_DIR=${rig.state}/configs`,
    "SPEED=3",
    "LANG=C.UTF-8",
    `PWD=${rig.state}/apps/arm/versions/rel_v1`,
  ]) {
    assert.ok(lines.includes(line), line);
  }
  assert.ok(lines.some((line) => /^node v\d+/.test(line)));
  const known = /^(PATH|LANG|PWD|OLDPWD|SHLVL|_|SPEED|ROAMFLEET_(APP|RELEASE|CONFIG_DIR|SOCKET))=/;
  assert.deepEqual(
    lines.filter((line) => line.includes("=") && !known.test(line)),
    [],
    "nothing else of the agent's environment",
  );
});

test("fails with insufficient_disk and keeps the old release if unpacking fills the disk", { ...options, skip: !canMount() }, async () => {
  await using rig = await DeploymentsRig.start();
  const versions = path.join(rig.state, "apps/main/versions");
  await rig.ended(rig.deploy(await shellRelease("v1", "trap 'exit 0' TERM; cd /; while :; do sleep 0.05; done")));
  const before = rig.processes("main");
  const keep = fs.mkdtempSync(path.join(rig.state, "keep-"));
  fs.cpSync(versions, keep, { recursive: true });
  execFileSync(MOUNT, ["-t", "tmpfs", "-o", "size=1m", "none", versions]);
  try {
    fs.cpSync(keep, versions, { recursive: true });
    const end = await rig.ended(rig.deploy(await shellRelease("v2", WELL, {}, [{ name: "big", content: Buffer.alloc(3_000_000, 7) }])));
    assert.deepEqual([end.status, end.reason], ["failed", "insufficient_disk"]);
    assert.deepEqual(rig.processes("main"), before);
    assert.deepEqual(fs.readdirSync(versions), ["rel_v1"]);
  } finally {
    await rig.deployments.stop();
    execFileSync(UMOUNT, [versions]);
    await rig.boot();
  }
});

/** Returns whether this user can mount a small file system, which the test of a full disk needs. */
function canMount(): boolean {
  if (process.getuid?.() !== 0) return false;
  const place = fs.mkdtempSync("/tmp/roamfleet-mount-");
  try {
    execFileSync(MOUNT, ["-t", "tmpfs", "-o", "size=1m", "none", place], { stdio: "ignore" });
    execFileSync(UMOUNT, [place], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  } finally {
    fs.rmdirSync(place);
  }
}

test("at startup, downloads a bundle again if one of its files is missing or truncated", options, async () => {
  const content = Buffer.alloc(100_000, 7);
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL, {}, [{ name: "map", content }])));
  for (const damage of [(file: string) => fs.rmSync(file), (file: string) => fs.truncateSync(file, 10)]) {
    for (const name of ["map", "roamfleet.json"]) {
      const file = path.join(rig.state, "apps/main/versions/rel_v1", name);
      const before = fs.readFileSync(file);
      await rig.deployments.stop();
      damage(file);
      await rig.boot();
      await until("the workload", () => rig.processes("main", "v1").length === 1);
      assert.deepEqual(fs.readFileSync(file), before);
    }
  }
});

test("downloads a bundle with a changed file again when its release is redeployed", options, async () => {
  await using rig = await DeploymentsRig.start();
  const health = { command: ["sh", "-c", "cmp map good"] };
  const file = { name: "map", content: Buffer.alloc(1_000, 7) };
  const one = await shellRelease("v1", WELL, { health }, [file, { ...file, name: "good" }]);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  fs.writeFileSync(path.join(rig.state, "apps/main/versions/rel_v1/map"), Buffer.alloc(1_000, 8));
  assert.equal((await rig.ended(rig.deploy(one, { target: "tgt_again" }))).status, "applied");
  assert.deepEqual(fs.readFileSync(path.join(rig.state, "apps/main/versions/rel_v1/map")), file.content);
});

test("an open shell of an app survives a deployment of the app and does not delay it", options, async (t) => {
  await using rig = await DeploymentsRig.start();
  await rig.ended(rig.deploy(await shellRelease("v1", WELL, { stop_timeout_seconds: 600 })));
  const shells = createShells({
    clock: systemClock,
    shell: { user: userInfo().username },
    environment: { PATH: process.env["PATH"] ?? "" },
    place: (app) => rig.deployments.place(app),
    is_confined: () => false,
    state_directory: rig.state,
  });
  const pair = channelPair({ shell: shells.source });
  // Like an interactive shell, it ignores SIGTERM.
  const command = ["sh", "-c", "trap '' TERM; echo ready; while read -r line; do echo got $line; done"];
  const channel = await pair.server.open("shell", "shell", { cols: 80, rows: 24, app: "main", command });
  t.after(() => channel.reset(1000, "the test is over"));
  let said = "";
  void (async () => {
    for await (const message of channel) said += Buffer.from(readMessage(message).data ?? []).toString("utf8");
  })();
  await until("the shell", () => said.includes("ready"));
  assert.equal((await rig.ended(rig.deploy(await shellRelease("v2", WELL)))).status, "applied");
  await channel.write(dataMessage(Buffer.from("hello\n")));
  await until("an answer of the shell", () => said.includes("got hello"));
});

test("the example app hello-robot applies 1.0.0 and 1.1.0 and rolls back 2.0.0", options, async () => {
  await using rig = await DeploymentsRig.start();
  const [good, better, bad] = await Promise.all(HELLO_VERSIONS.map(buildHelloRobot));
  assert.equal((await buildHelloRobot("1.0.0")).sha256, good!.sha256);
  assert.equal((await rig.ended(rig.deploy(releaseOf("hello-1.0.0", good!.bytes), { verify_seconds: 4 }))).status, "applied");
  assert.equal((await rig.ended(rig.deploy(releaseOf("hello-1.1.0", better!.bytes), { verify_seconds: 4 }))).status, "applied");
  const end = await rig.ended(rig.deploy(releaseOf("hello-2.0.0", bad!.bytes), { verify_seconds: 10 }));
  assert.deepEqual([end.status, end.reason], ["rolled_back", "health_check_failed"]);
  assert.match(end.message ?? "", /alive is .* s old; the maximum is 3 s; release hello-1.1.0 runs again/);
  assert.equal(rig.processes("main", "hello-1.1.0").length, 1);
});
