import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../packages/agent/src/testing/agent-rig.ts";
import { startSoftwareTpm, whyNoSoftwareTpm } from "../../packages/agent/src/testing/software-tpm.ts";
import { RobotInVm } from "./robot-in-vm.ts";
import { MACHINES_FULL, whyNoVirtualMachine } from "./virtual-machine.ts";

const WHY_NOT = MACHINES_FULL ? (whyNoVirtualMachine() ?? whyNoSoftwareTpm()) : "takes minutes: npm run test:machines";
const LIMIT = { timeout: 3_600_000, skip: WHY_NOT };

test("a robot with a TPM creates its key in the TPM, and its disk cannot connect with another TPM", LIMIT, async (t) => {
  const tpm = await startSoftwareTpm(t, path.join(temporaryDirectory(t), "own"), "machine");
  const chip = [
    "-chardev",
    `socket,id=tpm,path=${tpm.control}`,
    "-tpmdev",
    "emulator,id=tpm0,chardev=tpm",
    "-device",
    "tpm-crb,tpmdev=tpm0",
  ];
  await using robot = await RobotInVm.start({ qemu: chip });
  const { machine } = robot;
  await robot.install();
  assert.equal((await robot.robot()).public_key_type, "ecdsa_p256");
  assert.match(await machine.run(["rf-agent", "status"]), /^key: in the TPM$/m);
  assert.doesNotMatch(await machine.run(["ls", "/var/lib/roamfleet-agent/identity"]), /key\.pem/);
  const online = async (): Promise<boolean> => (await robot.robot()).status === "online";

  await machine.reboot();
  await machine.until("the robot to be online after a reboot", online);

  await machine.cutPower();
  await tpm.restart({ forget: true });
  await machine.boot();
  await machine.until("the agent to state why it cannot connect", async () =>
    (await machine.run(["journalctl", "--unit=roamfleet-agent", "--boot", "--output=cat"])).includes("this key belongs to another TPM"),
  );
  assert.notEqual((await robot.robot()).status, "online");
});
