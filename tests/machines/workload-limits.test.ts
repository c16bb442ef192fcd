import assert from "node:assert/strict";
import { test } from "node:test";
import { RobotInVm } from "./robot-in-vm.ts";
import { MACHINES_FULL, whyNoVirtualMachine } from "./virtual-machine.ts";

const LIMIT = { timeout: 3_600_000, skip: MACHINES_FULL ? whyNoVirtualMachine() : "takes many minutes: npm run test:machines" };
const MEMORY_BYTES = 32 * 1024 * 1024;
/** Doubles the length of a text until the memory limit is reached. */
const GREEDY = "text=0123456789; while :; do text=$text$text; done";

test(
  "an app runs in its own unit with its limits, also after a restart of the agent, and is not disturbed when another app exceeds its limit",
  LIMIT,
  async () => {
    await using robot = await RobotInVm.start();
    const { machine } = robot;
    await robot.install();
    const limits = { memory_bytes: MEMORY_BYTES, cpus: 0.5, pids: 20 };
    assert.equal((await robot.ended(await robot.deploy(await robot.pushApp("counter-1", { manifest: { limits } })))).status, "applied");
    const app = await robot.app();
    const scope = "roamfleet-app-main.scope";
    const unit = await machine.unit(scope, "ActiveState", "Slice", "MemoryMax", "CPUQuotaPerSecUSec", "TasksMax");
    assert.deepEqual(unit, {
      ActiveState: "active",
      Slice: "roamfleet.slice",
      MemoryMax: String(MEMORY_BYTES),
      CPUQuotaPerSecUSec: "500ms",
      // The app's limit of 20 tasks, and 16 for the wrapper.
      TasksMax: "36",
    });
    assert.equal(await machine.sh('cat "/proc/$(cat /var/tmp/app.pid)/cgroup"'), `0::/roamfleet.slice/${scope}\n`);

    const before = await robot.agents();
    await machine.run(["systemctl", "restart", "roamfleet-agent"]);
    await robot.reconnected(before);
    assert.equal(await robot.app(), app, "the app has another process after a restart of the agent");

    const greedy = await robot.pushApp("greedy", { app: "greedy", script: GREEDY, manifest: { limits: { memory_bytes: MEMORY_BYTES } } });
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

/** Prints which resources of the robot a program can use, then runs until it is stopped. */
const LOOK = `
echo "runs as $(id -un) in $(id -Gn)"
echo "has the config $(tr -d " \\n" <"$ROAMFLEET_CONFIG_DIR/nav.json")"
echo kept >"$HOME/data" && echo "has the data $(cat "$HOME/data")"
echo "reads the status $(curl -s --unix-socket "$ROAMFLEET_SOCKET" http://robot/v1/status | head -c 8)"
echo "opens its output again" >/dev/stderr
echo "has looked"
while :; do sleep 1; done`;
/** Prints the files of the agent's state directory that programs can read. */
const READABLE = `find /var/lib/roamfleet-agent -type f |
  setpriv --reuid=roamfleet-app --regid=roamfleet-app --init-groups sh -c 'while read -r file; do [ ! -r "$file" ] || echo "$file"; done'`;

test(
  "programs run as a separate user, which can read only their release and the configs in the agent's state directory",
  LIMIT,
  async () => {
    await using robot = await RobotInVm.start();
    const { machine } = robot;
    await robot.install();
    await robot.deployConfig("nav", "speed", 2);
    const health = { command: ["sh", "-c", '[ "$(id -un)" = roamfleet-app ]'] };
    const look = await robot.pushApp("look", { script: LOOK, manifest: { health } });
    assert.equal((await robot.ended(await robot.deploy(look))).status, "applied");
    await robot.logged(/^has looked$/);
    const expected_messages = [
      "runs as roamfleet-app in roamfleet-app",
      'has the config {"speed":2}',
      "has the data kept",
      'reads the status {"data":',
    ];
    const messages = await robot.messages();
    assert.deepEqual(
      [...expected_messages, "opens its output again"].filter((message) => !messages.includes(message)),
      [],
      messages.join("\n"),
    );
    const readable = (await machine.sh(READABLE)).trim().split("\n");
    const expected = /^\/var\/lib\/roamfleet-agent\/(apps\/main\/versions\/|configs\/nav\.json$)/;
    assert.deepEqual(
      readable.filter((file) => !expected.test(file)),
      [],
    );
    assert.ok(readable.some((file) => file.endsWith("/run.sh")) && readable.some((file) => file.endsWith("/nav.json")));

    // This also applies to a config that arrives while the program runs.
    await robot.deployConfig("nav", "speed", 3);
    assert.match(
      await machine.sh("setpriv --reuid=roamfleet-app --regid=roamfleet-app --init-groups cat /var/lib/roamfleet-agent/configs/nav.json"),
      /3/,
    );

    const pid = await machine.run(["pgrep", "--full", "^sh run.sh"]);
    await machine.sh("echo ROAMFLEET_WORKLOAD_USER=missing >>/etc/roamfleet/agent.env; systemctl restart roamfleet-agent");
    const refused = await robot.ended(await robot.deploy(await robot.pushApp("counter-1")));
    assert.equal(refused.status, "failed");
    assert.match(await robot.reason(refused.id), /this robot has no user missing/);
    assert.equal(await machine.run(["pgrep", "--full", "^sh run.sh"]), pid, "the refused release disturbed the running one");
  },
);
