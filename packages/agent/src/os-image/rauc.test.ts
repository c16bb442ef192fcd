import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { RaucMachine, raucRelease, whyNoRauc } from "../testing/rauc-machine.ts";
import { raucSlots } from "./rauc.ts";

const LIMIT = { timeout: 120_000, skip: whyNoRauc() };

const slotText = (machine: RaucMachine, slot: "A" | "B"): string | undefined => machine.read(`slot.${slot}`).split("\n")[0];

test("RAUC installs a bundle, the robot reboots into it, and RAUC marks it good", LIMIT, async () => {
  await using machine = await RaucMachine.create();
  const target = machine.want(machine.bundle("v1", "good"));
  machine.on();
  const { status, message } = await machine.ended(target);
  assert.equal(status, "applied", message);
  assert.deepEqual([machine.read("booted"), machine.read("good.B"), slotText(machine, "B")], ["B", "1", "good v1"]);
  const order = machine.calls.filter((call) => /^(set-|boot)/.test(call));
  assert.deepEqual(order, ["set-state B bad", "set-primary B", "set-primary A", "set-primary B", "boot B", "set-state B good"]);
  await machine.off();
  const second = machine.want(machine.bundle("v2", "good"));
  machine.on();
  assert.equal((await machine.ended(second)).status, "applied");
  assert.deepEqual([machine.read("booted"), slotText(machine, "A")], ["A", "good v2"]);
});

test("RAUC refuses a bundle of a foreign key and a broken bundle; the target fails with RAUC's message", LIMIT, async () => {
  await using machine = await RaucMachine.create();
  const foreign = machine.bundle("foreign", "good", "stranger");
  const whole = machine.bundle("whole", "good");
  const changed = Buffer.from(whole.bytes);
  changed[200] = changed[200]! ^ 1;
  const broken = [
    [foreign, /signature verification failed/i],
    [raucRelease("cut", whole.bytes.subarray(0, 2_000)), /rauc install exited with 1.*(?:bundle|signature)/is],
    [raucRelease("changed", changed), /signature verification failed|digest/i],
  ] as const;
  for (const [release, expected] of broken) {
    const target = machine.want(release);
    machine.on();
    const { status, reason, message } = await machine.ended(target);
    assert.deepEqual([status, reason], ["failed", "rejected_by_robot"], message);
    assert.match(message ?? "", expected);
    await machine.off();
  }
  assert.deepEqual([machine.read("booted"), machine.read("primary"), slotText(machine, "A")], ["A", "A", "good factory"]);
});

test("a RAUC image that does not boot, or never connects, ends as rolled_back in the old slot", LIMIT, async () => {
  for (const [behavior, expected] of [
    ["dead", /started slot A again instead of B/],
    ["offline", /the agent is not connected to the server/],
  ] as const) {
    await using machine = await RaucMachine.create();
    const target = machine.want(machine.bundle("v1", behavior));
    machine.on();
    const { status, message } = await machine.ended(target);
    assert.equal(status, "rolled_back", message);
    assert.match(message ?? "", expected);
    assert.deepEqual([machine.read("booted"), machine.read("primary")], ["A", "A"]);
  }
});

test("a power cut while RAUC writes or activates a slot leaves the old system, and the image is installed again", LIMIT, async () => {
  for (const step of ["set-state B bad", "set-primary B "]) {
    await using machine = await RaucMachine.create();
    fs.writeFileSync(path.join(machine.slots, "hang"), step);
    const target = machine.want(machine.bundle("v1", "good"));
    machine.on();
    await until("RAUC to be in the middle", () => fs.existsSync(path.join(machine.slots, "installing")));
    fs.rmSync(path.join(machine.slots, "hang"));
    await machine.cutPower();
    assert.equal(machine.read("booted"), "A");
    const { status, message } = await machine.ended(target);
    assert.equal(status, "applied", message);
    assert.equal(machine.read("booted"), "B");
  }
});

test("a restarted agent waits until RAUC has finished an earlier installation, then installs again", LIMIT, async () => {
  await using machine = await RaucMachine.create();
  fs.writeFileSync(path.join(machine.slots, "hang"), "set-state B bad");
  const target = machine.want(machine.bundle("v1", "good"));
  machine.on();
  await until("RAUC to be in the middle", () => fs.existsSync(path.join(machine.slots, "installing")));
  await machine.killAgent();
  fs.rmSync(path.join(machine.slots, "hang"));
  process.kill(Number(machine.read("installing")), "SIGTERM");
  assert.equal((await machine.ended(target)).status, "applied");
  assert.deepEqual([machine.read("booted"), machine.read("primary")], ["B", "B"]);
});

test("reads the slots from RAUC's status, and refuses a status without a second slot", () => {
  const slot = (bootname: string | null, type = "rootfs") => ({ [`${type}.${bootname}`]: { class: type, bootname } });
  const slots = [slot("A"), slot(null, "data"), slot("B")];
  assert.deepEqual(raucSlots({ booted: "B", slots }), { booted: "B", other: "A" });
  assert.throws(() => raucSlots({ booted: "_external_", slots }), /does not show which of two slots/);
  assert.throws(() => raucSlots({ booted: "A", slots: [slot("A")] }), /does not show/);
  assert.throws(() => raucSlots({}), /does not show/);
});
