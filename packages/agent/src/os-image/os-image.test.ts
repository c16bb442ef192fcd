import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { shellRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig } from "../testing/deployments-rig.ts";
import { imageRelease, SlotMachine } from "../testing/slot-machine.ts";

test("writes an image to the other slot, reboots, verifies and confirms it", async () => {
  await using machine = await SlotMachine.create();
  const target = machine.want(imageRelease("v1", "good"));
  machine.on();
  assert.equal((await machine.ended(target)).status, "applied");
  assert.deepEqual(machine.statuses(target), ["downloading", "staged", "installing", "verifying", "applied"]);
  // The image is activated only after the robot allowed the update: until then the next boot starts slot A.
  assert.deepEqual(machine.calls, ["install v1", "activate A", "activate B", "boot B", "confirm"]);
  assert.deepEqual([machine.read("booted"), machine.read("good.B"), machine.read("slot.B")], ["B", "1", "good v1"]);
  await machine.off();

  const second = machine.want(imageRelease("v2", "good"));
  machine.on();
  assert.equal((await machine.ended(second)).status, "applied");
  assert.deepEqual([machine.read("booted"), machine.read("slot.A")], ["A", "good v2"]);
});

test("a refused image ends as failed with the hook's message, and the running system stays", async () => {
  await using machine = await SlotMachine.create();
  const target = machine.want(imageRelease("v1", "broken"));
  machine.on();
  const { status, reason, message } = await machine.ended(target);
  assert.deepEqual([status, reason], ["failed", "rejected_by_robot"]);
  assert.match(message ?? "", /os_image\.install exited with 1: LastError: signature verification failed/);
  await until("slot A to be the next one", () => machine.calls.includes("activate A"));
  assert.deepEqual([machine.read("booted"), machine.read("primary"), machine.calls.includes("boot B")], ["A", "A", false]);
});

test("an image that does not boot ends as rolled_back, since the bootloader started the old slot", async () => {
  await using machine = await SlotMachine.create();
  const target = machine.want(imageRelease("v1", "dead"));
  machine.on();
  const { status, reason, message } = await machine.ended(target);
  assert.deepEqual([status, reason], ["rolled_back", "health_check_failed"]);
  assert.match(message ?? "", /started slot A again instead of B.*the earlier system runs again/s);
  assert.deepEqual([machine.read("booted"), machine.read("primary")], ["A", "A"]);
});

test("reboots into the old slot if the agent cannot connect with the new image", async () => {
  await using machine = await SlotMachine.create();
  const target = machine.want(imageRelease("v1", "offline"));
  machine.on();
  const { status, message } = await machine.ended(target);
  assert.equal(status, "rolled_back");
  assert.match(message ?? "", /the agent is not connected to the server; the earlier system runs again/);
  assert.deepEqual(machine.calls, ["install v1", "activate A", "activate B", "boot B", "activate A", "boot A", "activate A"]);
});

test("reboots into the old slot if an app is no longer healthy with the new image", async () => {
  await using machine = await SlotMachine.create();
  const marker = path.join(machine.slots, "boot_id");
  // The app is healthy only on the first boot.
  const app = await shellRelease("app1", WELL, { health: { command: ["grep", "-q", "first", marker] } });
  const app_target = machine.want(app, "main");
  machine.on();
  assert.equal((await machine.ended(app_target)).status, "applied");
  await machine.off();
  const target = machine.want(imageRelease("v1", "good"));
  machine.on();
  const { status, message } = await machine.ended(target);
  assert.equal(status, "rolled_back", message);
  assert.match(message ?? "", /app main is (?:unhealthy|failed|restarting|stopped)/);
  assert.equal(machine.read("booted"), "A");
});

test("an image ends as rolled_back if the robot loses power before the confirmation and boots the old slot", async () => {
  await using machine = await SlotMachine.create({ connect_ms: 60_000 });
  const target = machine.want(imageRelease("v1", "offline"));
  machine.on();
  await until("slot B to run", () => machine.statuses(target).includes("verifying"));
  // The bootloader has given up slot B.
  fs.writeFileSync(path.join(machine.slots, "primary"), "A");
  await machine.cutPower();
  const { status, message } = await machine.ended(target);
  assert.equal(status, "rolled_back");
  assert.match(message ?? "", /started slot A again instead of B/);
});

test("a power cut while the image is written leaves the running system untouched, and the image is written again", async () => {
  await using machine = await SlotMachine.create();
  fs.writeFileSync(path.join(machine.slots, "hang"), "");
  const target = machine.want(imageRelease("v1", "good"));
  machine.on();
  await until("the installation to begin", () => fs.existsSync(path.join(machine.slots, "installing")));
  fs.rmSync(path.join(machine.slots, "hang"));
  await machine.cutPower();
  assert.equal(machine.read("booted"), "A");
  assert.equal((await machine.ended(target)).status, "applied");
  assert.equal(machine.calls.filter((call) => call === "install v1").length, 2);
});

test("an image is staged while the safe-to-update check fails, and no boot starts it", async () => {
  await using machine = await SlotMachine.create();
  const safe_to_update = { command: "exit 1", timeout_ms: 20_000 };
  await using rig = await DeploymentsRig.start({ config: { robot: machine.robot, safe_to_update } });
  const target = rig.deploy(imageRelease("v1", "good"), { app: "os" });
  await until("the update to be held", () => rig.deployments.apps().some(({ held }) => held?.by === "gate"));
  assert.deepEqual(rig.statuses(target), ["downloading", "staged"]);
  assert.deepEqual([machine.calls, machine.read("primary")], [["install v1", "activate A"], "A"]);
  assert.ok(rig.deployments.kinds.includes("os_image"));
});

test("a robot without a hook and without RAUC does not announce the release kind os_image", async () => {
  await using rig = await DeploymentsRig.start({ config: { system_root: "/nonexistent" } });
  assert.ok(!rig.deployments.kinds.includes("os_image"));
});

test("removing an app with OS images boots the system from before the app's first image", async () => {
  await using machine = await SlotMachine.create();
  const target = machine.want(imageRelease("v1", "good"));
  machine.on();
  assert.equal((await machine.ended(target)).status, "applied");
  await machine.off();
  machine.drop("tgt_none");
  machine.on();
  assert.equal((await machine.ended("tgt_none")).status, "rolled_back");
  assert.deepEqual([machine.read("booted"), machine.read("primary")], ["A", "A"]);
});
