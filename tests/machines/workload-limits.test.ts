import assert from "node:assert/strict";
import { test } from "node:test";
import { RobotInVm } from "./robot-in-vm.ts";
import { MACHINES_FULL, whyNoVirtualMachine } from "./virtual-machine.ts";

const LIMIT = { timeout: 3_600_000, skip: MACHINES_FULL ? whyNoVirtualMachine() : "takes many minutes: npm run test:machines" };
const MEMORY_BYTES = 32 * 1024 * 1024;
/** Doubles a text until the memory ends. */
const GREEDY = "text=0123456789; while :; do text=$text$text; done";

test(
  "an app has its own unit and limits, which a restart of the agent keeps, and an app over its limit disturbs no other",
  LIMIT,
  async () => {
    await using robot = await RobotInVm.start();
    const { machine } = robot;
    await robot.install();
    const limits = { memory_bytes: MEMORY_BYTES, cpus: 0.5, pids: 20 };
    assert.equal((await robot.ended(await robot.deploy(await robot.pushApp("counter-1", { limits })))).status, "applied");
    const app = await robot.app();
    const scope = "roamfleet-app-main.scope";
    const unit = await machine.unit(scope, "ActiveState", "Slice", "MemoryMax", "CPUQuotaPerSecUSec", "TasksMax");
    assert.deepEqual(unit, {
      ActiveState: "active",
      Slice: "roamfleet.slice",
      MemoryMax: String(MEMORY_BYTES),
      CPUQuotaPerSecUSec: "500ms",
      // Its own 20, and 16 of the program that reads its output.
      TasksMax: "36",
    });
    assert.equal(await machine.sh('cat "/proc/$(cat /var/tmp/app.pid)/cgroup"'), `0::/roamfleet.slice/${scope}\n`);

    const before = await robot.agents();
    await machine.run(["systemctl", "restart", "roamfleet-agent"]);
    await robot.reconnected(before);
    assert.equal(await robot.app(), app, "the app has another process after a restart of the agent");

    const greedy = await robot.pushApp("greedy", { app: "greedy", script: GREEDY, limits: { memory_bytes: MEMORY_BYTES } });
    assert.equal((await robot.ended(await robot.deploy(greedy))).status, "failed");
    await robot.logged(/^greedy ended by SIGKILL because it reached its memory limit; it is started again$/);

    await machine.write("/etc/systemd/system/roamfleet-app-refused.scope.d/refuse.conf", "[Unit]\nRefuseManualStart=yes\n");
    await machine.run(["systemctl", "daemon-reload"]);
    assert.equal((await robot.ended(await robot.deploy(await robot.pushApp("refused", { app: "refused" })))).status, "failed");
    await robot.logged(/^refused could not be started: Failed to start transient scope unit: /);

    assert.equal(await robot.app(), app, "the app has another process after other apps failed");
    const next = await robot.pushApp("counter-2");
    assert.equal((await robot.ended(await robot.deploy(next))).status, "applied");
    assert.equal((await machine.unit(scope, "MemoryMax")).MemoryMax, "infinity");
  },
);
