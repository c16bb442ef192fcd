import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { until } from "@roamfleet/clock/testing";
import { ROBOT_CONFIG_DEFAULT } from "../config-file/robot-config.ts";
import type { AgentConfig } from "../contract.ts";
import { ArtifactServer } from "./artifact-server.ts";
import type { TestRelease } from "./bundles.ts";
import { end } from "./killed-agents.ts";
import { SCRIPT, SlotMachine } from "./slot-machine.ts";

const IMAGE_BYTES = 512 * 1024;
/** A file system other than that of the state directory: robots with RAUC have the state directory on a separate partition. */
const OTHER_FILE_SYSTEM = "/dev/shm";

/** Returns why RAUC cannot be run here; undefined if it can. */
export function whyNoRauc(): string | undefined {
  if (process.getuid?.() !== 0) return "RAUC mounts bundles as root";
  const programs = [
    ["rauc", "--version"],
    ["mksquashfs", "-version"],
    ["dbus-daemon", "--version"],
    ["openssl", "version"],
    ["busctl", "--version"],
    ["losetup", "--find"],
  ];
  const missing = programs.find(([name, word]) => spawnSync(name!, [word!]).error !== undefined);
  if (missing !== undefined) return `not installed: ${missing[0]}`;
  if (spawnSync("losetup", ["--find"]).status !== 0) return "no loop device is free, which RAUC needs to mount a bundle";
  if (!fs.existsSync(OTHER_FILE_SYSTEM) || fs.statSync(OTHER_FILE_SYSTEM).dev === fs.statSync(os.tmpdir()).dev)
    return `${OTHER_FILE_SYSTEM} is not a separate file system`;
  return undefined;
}

/** A robot with RAUC: the real program and service on a separate D-Bus, with two files as slots and a bootloader that is a script. */
export class RaucMachine extends SlotMachine {
  readonly #root: string;
  #bus: ChildProcess | undefined;
  #service: ChildProcess | undefined;
  #boot_id = "";

  private constructor(server: ArtifactServer, directory: string, connect_ms: number) {
    super(server, directory, connect_ms);
    this.#root = fs.mkdtempSync(path.join(OTHER_FILE_SYSTEM, "roamfleet-rauc-"));
  }

  static override async create({ connect_ms = 500 } = {}): Promise<RaucMachine> {
    const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-rauc-")));
    const machine = new RaucMachine(await ArtifactServer.start(), directory, connect_ms);
    machine.prepare();
    await machine.#startBus();
    return machine;
  }

  #file(...names: string[]): string {
    return path.join(this.#root, ...names);
  }

  #write(name: string, text: string, mode = 0o644): void {
    fs.mkdirSync(path.dirname(this.#file(name)), { recursive: true });
    fs.writeFileSync(this.#file(name), text, { mode });
  }

  protected override prepare(): void {
    super.prepare();
    for (const slot of ["slot.A", "slot.B"]) fs.truncateSync(path.join(this.slots, slot), 2 * IMAGE_BYTES);
    for (const name of ["maker", "stranger"]) makeAuthority(this.#root, name);
    fs.mkdirSync(this.#file("proc/sys/kernel/random"), { recursive: true });
    fs.symlinkSync(path.join(this.slots, "boot_id"), this.#file("proc/sys/kernel/random/boot_id"));
    const program = (text: string): string => `#!/bin/sh\n${text}\n`;
    const on_bus = (name: string): string => program(`DBUS_SYSTEM_BUS_ADDRESS=unix:path=${this.#file("bus")} exec /usr/bin/${name} "$@"`);
    this.#write("bin/rauc", on_bus("rauc"), 0o755);
    this.#write("bin/busctl", on_bus("busctl"), 0o755);
    this.#write("bin/systemctl", program(`[ "$1" = reboot ] || exit 1\nsh ${SCRIPT} ${this.slots} boot; kill -TERM $PPID`), 0o755);
    this.#write("bin/bootloader", program(`exec sh ${SCRIPT} ${this.slots} "$@"`), 0o755);
    const slot = (index: number, name: string): string =>
      `[slot.rootfs.${index}]\ndevice=${path.join(this.slots, `slot.${name}`)}\ntype=raw\nbootname=${name}\n`;
    this.#write(
      "etc/rauc/system.conf",
      `[system]\ncompatible=test\nbootloader=custom\nstatusfile=${this.#file("status")}\nmountprefix=${this.#file("mnt")}\n` +
        `[handlers]\nbootloader-custom-backend=${this.#file("bin/bootloader")}\n[keyring]\npath=${this.#file("maker.crt")}\n${slot(0, "A")}${slot(1, "B")}`,
    );
    this.#write(
      "bus.conf",
      `<busconfig><type>system</type><listen>unix:path=${this.#file("bus")}</listen><auth>EXTERNAL</auth><policy context="default">` +
        '<allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>',
    );
  }

  async #startBus(): Promise<void> {
    this.#bus = spawn("dbus-daemon", [`--config-file=${this.#file("bus.conf")}`, "--nofork", "--nopidfile"], { stdio: "ignore" });
    await until("the bus", () => fs.existsSync(this.#file("bus")));
  }

  /** Starts RAUC's service again after each boot, and passes it the slot that the bootloader chose. */
  protected override async starting(): Promise<void> {
    if (this.#boot_id === this.read("boot_id")) return;
    this.#boot_id = this.read("boot_id");
    await this.stopping();
    const options = [`--conf=${this.#file("etc/rauc/system.conf")}`, `--override-boot-slot=${this.read("booted")}`];
    this.#service = spawn(this.#file("bin/rauc"), [...options, "service"], { stdio: "ignore", detached: true });
    await until("RAUC's service", () => spawnSync(this.#file("bin/rauc"), ["status"]).status === 0);
  }

  protected override async stopping(): Promise<void> {
    if (this.#service?.pid === undefined) return;
    // The group includes commands of the bootloader.
    process.kill(-this.#service.pid, "SIGKILL");
    await end(this.#service, "SIGKILL");
    this.#service = undefined;
    // A power cut would also end the mounts of a bundle that is being installed.
    const mounts = fs.existsSync(this.#file("mnt")) ? fs.readdirSync(this.#file("mnt")) : [];
    for (const name of mounts) spawnSync("umount", ["--lazy", this.#file("mnt", name)]);
  }

  protected override config(): Partial<AgentConfig> {
    const workload_environment = { PATH: `${this.#file("bin")}:${process.env["PATH"] ?? "/usr/bin:/bin"}` };
    const robot = { ...ROBOT_CONFIG_DEFAULT, os_image: { connect_ms: this.robot.os_image.connect_ms } };
    return { system_root: this.#root, workload_environment, robot };
  }

  /** Returns a release with a bundle, signed with one of two authorities. The robot trusts `maker`. */
  bundle(tag: string, behavior: "good" | "offline" | "dead", signer: "maker" | "stranger" = "maker"): TestRelease {
    const content = this.#file(tag);
    fs.mkdirSync(content);
    fs.writeFileSync(path.join(content, "rootfs.img"), Buffer.concat([Buffer.from(`${behavior} ${tag}\n`), Buffer.alloc(IMAGE_BYTES)]));
    return raucRelease(tag, raucBundle(content, tag, this.#file(signer)));
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]();
    if (this.#bus !== undefined) await end(this.#bus, "SIGKILL");
    fs.rmSync(this.#root, { recursive: true, force: true });
  }
}

export function raucRelease(tag: string, bytes: Buffer): TestRelease {
  const artifact_sha256 = hash("sha256", bytes);
  const release = { id: `rel_${tag}`, tag, kind: "os_image", artifact_sha256, artifact_size: bytes.length, image: null, manifest: null };
  return { bytes, release };
}

/** Makes a bundle of the image `rootfs.img` in the directory `content`, signed by the authority with the files `signer`.crt and .key. */
export function raucBundle(content: string, version: string, signer: string): Buffer {
  const manifest = `[update]\ncompatible=test\nversion=${version}\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=rootfs.img\n`;
  fs.writeFileSync(path.join(content, "manifest.raucm"), manifest);
  const file = `${content}.raucb`;
  const compression = "--mksquashfs-args=-comp zstd -Xcompression-level 3";
  execFileSync("rauc", [`--cert=${signer}.crt`, `--key=${signer}.key`, compression, "bundle", content, file], { stdio: "ignore" });
  return fs.readFileSync(file);
}

/** Makes a certificate authority, and writes it as the files `name`.crt and .key of a directory. */
export function makeAuthority(directory: string, name: string): void {
  const files = ["-keyout", path.join(directory, `${name}.key`), "-out", path.join(directory, `${name}.crt`)];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", `/CN=${name}`];
  execFileSync("openssl", ["req", "-x509", ...kind, ...files], { stdio: "ignore" });
}
