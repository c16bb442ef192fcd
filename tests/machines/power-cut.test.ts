import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { DIRECTORY_PREFIX, VirtualMachine, whyNoVirtualMachine } from "./virtual-machine.ts";

const LIMIT = { timeout: 1_800_000, skip: whyNoVirtualMachine() };
const ACKNOWLEDGED = 50;

/** Appends numbers to two files. One is synced before its number is acknowledged on the console, the other never. */
const WRITER = `
use IO::Handle;
open(my $console, '>', '/dev/ttyS0'); $console->autoflush(1);
open(my $synced, '>', '/root/synced'); $synced->autoflush(1);
open(my $unsynced, '>', '/root/unsynced'); $unsynced->autoflush(1);
for (my $n = 1; ; $n++) {
  print $unsynced "$n\\n";
  print $synced "$n\\n";
  $synced->sync or die "sync: $!";
  print $console "ACK $n\\n";
}`;

test("a virtual machine keeps acknowledged writes over a power cut, and loses unsynced ones", LIMIT, async (t) => {
  const began = performance.now();
  await using machine = await VirtualMachine.start();
  t.diagnostic(`booted after ${Math.round(performance.now() - began)} ms`);
  await machine.write("/root/writer.pl", WRITER);
  await machine.run(["sync"]);
  await machine.run(["systemd-run", "--quiet", "perl", "/root/writer.pl"]);
  const acknowledged = (): number =>
    Number(
      machine.console_output
        .match(/ACK \d+(?=\r?\n)/g)
        ?.at(-1)
        ?.slice(4) ?? 0,
    );
  await machine.until(`${ACKNOWLEDGED} acknowledged writes`, () => acknowledged() >= ACKNOWLEDGED);
  await machine.cutPower();
  const last = acknowledged();

  const again = performance.now();
  await machine.boot();
  t.diagnostic(`booted ${Math.round(performance.now() - again)} ms after the power cut`);
  const lastOf = async (file: string): Promise<number> => Number((await machine.run(["tail", "-n1", file])).trim());
  const synced = await lastOf("/root/synced");
  assert.ok(synced >= last, `${last} was acknowledged, the last one on the disk is ${synced}`);
  const unsynced = await lastOf("/root/unsynced");
  assert.ok(unsynced < last, `${unsynced} was never synced and is on the disk: this was no power cut`);
});

test("a virtual machine applies cgroup limits and reboots, and its start removes files of killed test runs", LIMIT, async () => {
  const abandoned = fs.mkdtempSync(DIRECTORY_PREFIX);
  fs.writeFileSync(path.join(abandoned, "root.img"), "");
  await using machine = await VirtualMachine.start();
  assert.equal(fs.existsSync(abandoned), false);
  assert.equal((await machine.run(["stat", "-fc", "%T", "/sys/fs/cgroup"])).trim(), "cgroup2fs");
  const limits = ["-p", "MemoryMax=20M", "-p", "MemorySwapMax=0"];
  const greedy = [
    "systemd-run",
    "--quiet",
    "--wait",
    "--unit=greedy",
    "-p",
    "CollectMode=inactive",
    ...limits,
    "sh",
    "-c",
    "head -c 60M /dev/zero | tail >/dev/null",
  ];
  assert.notEqual((await machine.exec(greedy)).code, 0);
  assert.equal((await machine.unit("greedy", "Result")).Result, "oom-kill");
  const modest = greedy.map((word) => word.replace("greedy", "modest").replace("60M", "6M"));
  assert.equal((await machine.exec(modest)).code, 0);

  const before = await machine.read("/proc/sys/kernel/random/boot_id");
  await machine.reboot();
  assert.notEqual(await machine.read("/proc/sys/kernel/random/boot_id"), before);
  assert.match(await machine.journal("greedy"), /oom-kill/);
});
