import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { makeAuthority, raucBundle } from "../../packages/agent/src/testing/rauc-machine.ts";
import { pushBundle } from "../processes/app-bundle.ts";
import { ensureBaseImage, whyNoPrograms } from "./base-image.ts";
import { RobotInVm } from "./robot-in-vm.ts";
import { whyNoVirtualMachine } from "./virtual-machine.ts";

const SLOT_BYTES = 1_500_000_000;
const DATA_BYTES = 2_000_000_000;
/** Time after the boot of an image within which the agent must connect. */
const CONNECT_SECONDS = 90;
const SYSTEM_CONF = `[system]
compatible=test
bootloader=custom
statusfile=/data/rauc.status
mountprefix=/run/rauc
[handlers]
bootloader-custom-backend=/usr/lib/robot/bootloader
[keyring]
path=/etc/rauc/maker.crt
[slot.rootfs.0]
device=/dev/vda
type=raw
bootname=A
[slot.rootfs.1]
device=/dev/vdb
type=raw
bootname=B
`;
/** RAUC cannot see which slot the machine's bootloader chose. */
const RAUC_SERVICE = `[Service]
ExecStart=
ExecStart=/bin/sh -c 'exec rauc --override-boot-slot=$(cat /run/slot) service'
`;
const FSTAB = `/dev/vdc /data ext4 noatime 0 0
/data/agent /var/lib/roamfleet-agent none bind 0 0
`;
/**
 * Deletes drivers and file systems that no virtual machine uses, and files that Debian can load again. A smaller image is installed faster.
 */
const SHRINK = `
cd /usr/lib/modules/*/kernel
rm -rf drivers/gpu drivers/infiniband drivers/media drivers/scsi drivers/usb drivers/nvme drivers/input drivers/hid drivers/net/ethernet
rm -rf fs/btrfs fs/xfs fs/nfs fs/nfsd fs/ceph fs/ocfs2 fs/gfs2 /var/cache/apt /var/lib/apt/lists /root/*
sync`;

/** How the system of an image behaves: without systemd it does not boot, without the network it cannot connect. */
export type ImageFault = "none" | "no_init" | "no_network";

/** Returns why the test cannot run here; undefined if it can. */
export const whyNoSlots = (): string | undefined =>
  whyNoVirtualMachine() ?? whyNoPrograms("rauc", "mksquashfs", "openssl", "resize2fs", "debugfs", "e2fsck");

/** A virtual machine with two system slots, RAUC, the packaged agent, and the agent's state on a partition that both systems share. */
export class RobotWithSlots implements AsyncDisposable {
  readonly robot: RobotInVm;
  readonly #scratch: string;
  readonly #stack: AsyncDisposableStack;

  private constructor(robot: RobotInVm, scratch: string, stack: AsyncDisposableStack) {
    this.robot = robot;
    this.#scratch = scratch;
    this.#stack = stack;
  }

  /** Boots the machine from slot A, prepares it, and installs the agent by the printed command. */
  static async start(): Promise<RobotWithSlots> {
    await using stack = new AsyncDisposableStack();
    const scratch = fs.mkdtempSync(path.join(tmpdir(), "roamfleet-slots-"));
    stack.defer(() => fs.rmSync(scratch, { recursive: true, force: true }));
    for (const name of ["maker", "stranger"]) makeAuthority(scratch, name);
    const initrd = await makeInitrd(scratch);
    const robot = stack.use(await RobotInVm.start({ initrd, disks: makeDisks(scratch) }));
    const slots = new RobotWithSlots(robot, scratch, stack.move());
    try {
      await slots.#prepare();
    } catch (error) {
      await slots[Symbol.asyncDispose]();
      throw error;
    }
    return slots;
  }

  async #prepare(): Promise<void> {
    const { machine } = this.robot;
    await machine.write("/etc/rauc/system.conf", SYSTEM_CONF);
    await machine.write("/etc/rauc/maker.crt", fs.readFileSync(path.join(this.#scratch, "maker.crt")));
    await machine.write("/usr/lib/robot/bootloader", fs.readFileSync(path.join(import.meta.dirname, "slots-bootloader.sh")), "0755");
    await machine.write("/etc/systemd/system/rauc.service.d/slot.conf", RAUC_SERVICE);
    await machine.write("/etc/roamfleet/agent.yaml", `os_image: { connect_seconds: ${CONNECT_SECONDS} }\n`);
    await machine.write("/etc/system-version", "factory\n");
    await machine.write("/etc/fstab", FSTAB);
    await machine.sh("mkdir -p /data /var/lib/roamfleet-agent; systemctl daemon-reload; mount /data; mount /var/lib/roamfleet-agent");
    await this.robot.install();
    await machine.sh(SHRINK);
    await machine.cutPower();
    const image = path.join(this.#scratch, "system.img");
    await machine.copyRoot(image);
    check(image);
    execFileSync("resize2fs", ["-M", image], { stdio: "ignore" });
    await machine.boot();
  }

  /**
   * Creates an image of this robot's system with another version, and a release of that image. The robot trusts bundles signed by `maker`.
   */
  async push(version: string, fault: ImageFault = "none", signer: "maker" | "stranger" = "maker"): Promise<string> {
    const content = path.join(this.#scratch, version);
    fs.mkdirSync(content);
    const image = path.join(content, "rootfs.img");
    execFileSync("cp", ["--sparse=always", path.join(this.#scratch, "system.img"), image]);
    const text = path.join(this.#scratch, "version");
    fs.writeFileSync(text, `${version}\n`);
    const changes = ["rm /etc/system-version", `write ${text} /etc/system-version`];
    if (fault === "no_init") changes.push("rm /usr/lib/systemd/systemd");
    if (fault === "no_network") changes.push("rm /etc/systemd/network/10-ethernet.network");
    execFileSync("debugfs", ["-w", "-f", "-", image], { input: changes.join("\n"), stdio: ["pipe", "ignore", "ignore"] });
    check(image);
    const bundle = raucBundle(content, version, path.join(this.#scratch, signer));
    for (const made of [content, `${content}.raucb`]) fs.rmSync(made, { recursive: true });
    return pushBundle(this.robot.api, version, bundle, { kind: "os_image", app: "os" });
  }

  /** Waits until the machine can be reached. Returns the slot and the version of the running system. */
  async running(): Promise<string> {
    const { machine } = this.robot;
    await machine.waitForReboot(0);
    return (await machine.sh("echo $(cat /run/slot /etc/system-version)")).trim();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** Repairs a file system whose machine lost power. e2fsck exits with 1 if it changed something. */
function check(image: string): void {
  try {
    execFileSync("e2fsck", ["-fy", image], { stdio: "ignore" });
  } catch (error) {
    if ((error as { status?: unknown }).status !== 1) throw error;
  }
}

/** Returns the path of an initrd that chooses a slot. It is the base image's initrd with another init program. */
async function makeInitrd(scratch: string): Promise<string> {
  const base = path.join(await ensureBaseImage("vm"), "initrd");
  const init = path.join(import.meta.dirname, "slots-init.sh");
  const initrd = path.join(scratch, "initrd");
  const script =
    'mkdir files; cd files; gzip -dc "$1" | cpio --quiet -id; cp "$2" init; chmod 755 init; find . | cpio --quiet -o -H newc | gzip -1 >"$3"';
  execFileSync("sh", ["-ec", script, "sh", base, init, initrd], { cwd: scratch });
  return initrd;
}

/** Returns the paths of two disks: the empty slot B, and the data with the state of the bootloader. */
function makeDisks(scratch: string): string[] {
  const [other, data] = [path.join(scratch, "other.img"), path.join(scratch, "data.img")];
  const tree = path.join(scratch, "data");
  fs.mkdirSync(path.join(tree, "boot"), { recursive: true });
  fs.mkdirSync(path.join(tree, "agent"));
  const state = { order: "A B", "left.A": "3", "good.A": "1", "left.B": "0", "good.B": "0" };
  for (const [name, text] of Object.entries(state)) fs.writeFileSync(path.join(tree, "boot", name), `${text}\n`);
  for (const [file, bytes] of [
    [other, SLOT_BYTES],
    [data, DATA_BYTES],
  ] as const) {
    fs.writeFileSync(file, "");
    fs.truncateSync(file, bytes);
  }
  execFileSync("mke2fs", ["-q", "-t", "ext4", "-F", "-d", tree, data]);
  return [other, data];
}
