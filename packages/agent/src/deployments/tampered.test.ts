import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { writeTrust } from "../signing/pinned-trust.ts";
import { releaseOf, shellRelease, type TestRelease } from "../testing/bundles.ts";
import { DeploymentsRig, type RigOptions } from "../testing/deployments-rig.ts";
import { makeSigner, signed, TEST_ORG } from "../testing/signing.ts";

const LIMIT = { timeout: 120_000 };
const KEY = makeSigner("maker");
/** Returns a shell program that appends `words` and lib/words to $OUT, then runs until SIGTERM. */
const SAYS = (words: string): string =>
  `trap "exit 0" TERM; echo ${words} >> "$OUT"; cat lib/words >> "$OUT"; while :; do sleep 0.05; done`;

async function startSigned(options: RigOptions = {}): Promise<DeploymentsRig> {
  return DeploymentsRig.start({
    ...options,
    guarded: { org_id: TEST_ORG, robot_id: "rob_1", labels: {} },
    before_boot: (state) => writeTrust(state, { serial: 1, require_signature: true, keys: [KEY] }),
    config: { file_directories: [] },
  });
}

async function bundle(rig: DeploymentsRig, tag: string, version: number): Promise<TestRelease> {
  const env = { OUT: path.join(rig.state, "out") };
  return signed(await shellRelease(tag, SAYS(tag), { env }, [{ name: "lib/words", content: `words of ${tag}\n` }]), KEY, version);
}

const versionOf = (rig: DeploymentsRig, { release }: TestRelease): string => path.join(rig.state, "apps", "main", "versions", release.id);
const outOf = (rig: DeploymentsRig): string => fs.readFileSync(path.join(rig.state, "out"), "utf8");
const kill = async (rig: DeploymentsRig): Promise<void> => rig.processes("main").forEach((pid) => process.kill(pid, "SIGKILL"));
const restarted = async (rig: DeploymentsRig): Promise<void> => {
  await rig.deployments.stop();
  await rig.boot();
};

/** Ways to tamper with the files of a bundle. `is_extra`: the release's own files stay unchanged. */
const TAMPERED: Record<string, { change: (directory: string) => void; is_extra?: boolean }> = {
  "the program was replaced": { change: (directory) => fs.writeFileSync(path.join(directory, "run.sh"), SAYS("EVIL")) },
  "the manifest starts another program": {
    change: (directory) => fs.writeFileSync(path.join(directory, "roamfleet.json"), JSON.stringify({ start: ["sh", "-c", SAYS("EVIL")] })),
  },
  "a file is missing": { change: (directory) => fs.rmSync(path.join(directory, "lib", "words")) },
  "a file became a link": {
    change: (directory) => {
      fs.writeFileSync(path.join(directory, "..", "evil"), "EVIL\n");
      fs.rmSync(path.join(directory, "lib", "words"));
      fs.symlinkSync("../../evil", path.join(directory, "lib", "words"));
    },
  },
  "a file became executable": { change: (directory) => fs.chmodSync(path.join(directory, "lib", "words"), 0o755) },
  "a file was added": { change: (directory) => fs.writeFileSync(path.join(directory, "lib", "EVIL"), "EVIL"), is_extra: true },
};

for (const [what, { change, is_extra = false }] of Object.entries(TAMPERED))
  test(`restores a signed bundle before starting it again when ${what}`, LIMIT, async () => {
    await using rig = await startSigned();
    const one = await bundle(rig, "v1", 1);
    assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
    for (const again of [() => kill(rig), () => restarted(rig)]) {
      change(versionOf(rig, one));
      const before = outOf(rig).length;
      await again();
      await until("the release to run again", () => outOf(rig).length > before && rig.processes("main").length === 1);
      assert.equal(outOf(rig).slice(before).split("\n")[0], "v1");
      assert.ok(!outOf(rig).includes("EVIL"));
      assert.equal(fs.existsSync(path.join(versionOf(rig, one), "lib", "EVIL")), false);
      await until("words of the release", () => outOf(rig).slice(before).includes("words of v1"));
    }
    assert.equal(
      rig.logs.some(({ level, message }) => level === "error" && message.includes("is not started")),
      !is_extra,
    );
  });

test("reports a tampered signed bundle as failed and starts it only after a new download", LIMIT, async () => {
  await using rig = await startSigned();
  const one = await bundle(rig, "v1", 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  rig.server.trouble = () => ({ status: 404 });
  fs.writeFileSync(path.join(versionOf(rig, one), "run.sh"), SAYS("EVIL"));
  rig.reports.length = 0;
  await kill(rig);
  await until("the app is reported as failed", () => rig.reports.some((body) => body.kind === "app" && body.status === "failed"));
  assert.equal(rig.deployments.workloads()[0]?.status, "failed");
  assert.deepEqual(rig.processes("main"), []);
  const { message = "" } = rig.logs.find(({ level }) => level === "error") ?? {};
  assert.match(message, /main is not started: run\.sh differs from the release \(release v1\)/);
  rig.server.trouble = () => undefined;
  await until("it runs again", () => rig.deployments.workloads()[0]?.status === "running");
  assert.ok(!outOf(rig).includes("EVIL"));
});

test("keeps a staged bundle without a file record on disk until a new copy is downloaded", LIMIT, async () => {
  await using rig = await startSigned();
  const one = await bundle(rig, "v1", 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  rig.server.trouble = () => ({ status: 404 });
  fs.rmSync(path.join(rig.state, "apps", "main", "trees"), { recursive: true });
  await kill(rig);
  await until("the app is reported as failed", () => rig.deployments.workloads()[0]?.status === "failed");
  assert.ok(fs.existsSync(path.join(versionOf(rig, one), "run.sh")));
  rig.server.trouble = () => undefined;
  await until("it runs again", () => rig.deployments.workloads()[0]?.status === "running");
});

test("stops an unhealthy release even if the previous one is tampered with and cannot be downloaded", LIMIT, async () => {
  await using rig = await startSigned();
  const one = await bundle(rig, "v1", 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  fs.writeFileSync(path.join(versionOf(rig, one), "run.sh"), SAYS("EVIL"));
  const bad = await shellRelease("v2", "while :; do sleep 0.05; done", { health: { command: ["false"] } });
  const target = rig.deploy(signed(bad, KEY, 2));
  await until("the bad release to run", () => rig.processes("main", "v2").length > 0);
  rig.server.trouble = () => ({ status: 404 });
  const { status, reason } = await rig.ended(target);
  assert.deepEqual([status, reason], ["failed", "rollback_failed"]);
  assert.deepEqual(rig.processes("main"), []);
});

test("a rollback verifies the signed files of the previous release before starting it", LIMIT, async () => {
  await using rig = await startSigned();
  const one = await bundle(rig, "v1", 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  fs.writeFileSync(path.join(versionOf(rig, one), "run.sh"), SAYS("EVIL"));
  const bad = signed(await shellRelease("v2", "exit 1"), KEY, 2);
  assert.equal((await rig.ended(rig.deploy(bad))).status, "rolled_back");
  await until("the release before to run", () => rig.processes("main", "v1").length === 1);
  assert.ok(!outOf(rig).includes("EVIL"));
});

test("a rollback does not run a forged copy that a program put beside the previous release", LIMIT, async () => {
  await using rig = await startSigned();
  const one = await bundle(rig, "v1", 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  const beside = `${versionOf(rig, one)}.complete`;
  const bad = await shellRelease("v2", `cp -r ${versionOf(rig, one)} ${beside}; sed -i s/v1/EVIL/ ${beside}/run.sh; exit 1`);
  assert.equal((await rig.ended(rig.deploy(signed(bad, KEY, 2)))).status, "rolled_back");
  await until("the release before to run", () => rig.processes("main", "v1").length === 1);
  assert.equal(fs.existsSync(beside), false);
  assert.ok(!outOf(rig).includes("EVIL"));
});

test("a tampered staged file is downloaded again before it is installed", LIMIT, async () => {
  await using rig = await startSigned();
  const one = signed(releaseOf("v1", Buffer.from("a signed map"), { kind: "file", manifest: {} }), KEY, 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  const [staged, placed] = [path.join(versionOf(rig, one), "artifact"), path.join(rig.state, "files", "main")];
  fs.writeFileSync(staged, "EVIL");
  fs.writeFileSync(placed, "EVIL");
  await restarted(rig);
  await until("the file to be what was signed", () => fs.readFileSync(placed, "utf8") === "a signed map");
  assert.equal(fs.readFileSync(staged, "utf8"), "a signed map");
});

test("a tampered staged file is never installed, but stays on disk until a new copy is downloaded", LIMIT, async () => {
  await using rig = await startSigned();
  const one = signed(releaseOf("v1", Buffer.from("a signed map"), { kind: "file", manifest: {} }), KEY, 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  const [staged, placed] = [path.join(versionOf(rig, one), "artifact"), path.join(rig.state, "files", "main")];
  fs.writeFileSync(staged, "changed");
  fs.writeFileSync(placed, "other");
  rig.server.trouble = () => ({ status: 404 });
  await restarted(rig);
  await until("the app is reported as failed", () => rig.deployments.workloads()[0]?.status === "failed");
  assert.deepEqual(
    [staged, placed].map((file) => fs.readFileSync(file, "utf8")),
    ["changed", "other"],
  );
  rig.server.trouble = () => undefined;
  await until("the file to be what was signed", () => fs.readFileSync(placed, "utf8") === "a signed map");
  assert.equal(fs.readFileSync(staged, "utf8"), "a signed map");
});

test("restarts a failed app whose backoff ends before the agent starts to wait for it", LIMIT, async () => {
  // Each reading of the clock advances it by 6 ms. The agent plans its next step 6 ms after a failure, while the backoff of 10 ms is running.
  // At the following reading, 12 ms after the failure, the backoff is over.
  let now_ms = 0;
  const clock = { ...systemClock, monotonic: () => (now_ms += 6) };
  await using rig = await startSigned({ clock, tuning: { timing: { retry_first_ms: 10, retry_last_ms: 10 } } });
  const one = signed(releaseOf("v1", Buffer.from("a signed map"), { kind: "file", manifest: {} }), KEY, 1);
  assert.equal((await rig.ended(rig.deploy(one))).status, "applied");
  const placed = path.join(rig.state, "files", "main");
  for (const file of [path.join(versionOf(rig, one), "artifact"), placed]) fs.writeFileSync(file, "changed");
  let refused = 0;
  rig.server.trouble = () => {
    refused += 1;
    return { status: 404 };
  };
  await restarted(rig);
  await until("the download to be tried several times", () => refused >= 30);
  rig.server.trouble = () => undefined;
  await until("the file to be what was signed", () => fs.readFileSync(placed, "utf8") === "a signed map");
});
