import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { outputOf, runCommand } from "./run-command.ts";

/** Base images of the tests' machines: systems of Debian packages, built once and cached. */

const SUITE = "bookworm";
/** The scripts that make a virtual machine's disk of the packages. */
const DISK_SCRIPTS = ["vm-disk.sh", "vm-init.sh"].map((name) => path.join(import.meta.dirname, name));
const BUILD_MS_MAX = 30 * 60_000;
const LOCK_SECONDS_MAX = 1_800;
/** An image that was not used for this long is removed when another one is built. */
const UNUSED_MS_MAX = 30 * 24 * 3_600_000;

/** Packages of a robot with Debian before any of our packages is installed. */
const CLEAN = ["systemd", "systemd-sysv", "dbus", "udev", "libnss-systemd", "iproute2", "ca-certificates", "curl", "procps", "apt"];

/** The images by name, with their packages. Add an image here if a test needs other packages. */
export const BASE_IMAGES = {
  clean: CLEAN,
  /** For robots with a TPM or with A/B updates: `clean` with their tools. */
  tools: [...CLEAN, "tpm2-tools", "rauc", "faketime"],
  /** A developer's machine. */
  git: [...CLEAN, "git"],
  /** For virtual machines: `clean` with a kernel, sshd (by which tests run commands), and the tools of a TPM and of A/B updates. */
  vm: [...CLEAN, "openssh-server", "linux-image-cloud-amd64", "tpm2-tools", "rauc-service"],
} as const;

export type BaseImageName = keyof typeof BASE_IMAGES;

/** Returns why base images cannot be built here; undefined if they can. */
export function whyNoBaseImages(): string | undefined {
  if (process.getuid?.() !== 0) return "building a base image needs root";
  if (process.arch !== "x64") return "the base images are of x64";
  return whyNoPrograms("mmdebstrap", "flock");
}

/** Returns which of the programs are not in PATH; undefined if all are. */
export function whyNoPrograms(...names: string[]): string | undefined {
  const missing = names.filter((name) => spawnSync("sh", ["-c", 'command -v "$1"', "sh", name]).status !== 0);
  return missing.length === 0 ? undefined : `not installed: ${missing.join(", ")}`;
}

const isDisk = (name: BaseImageName): boolean => name === "vm";

const cacheDirectory = (): string => path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache"), "roamfleet-machines");

/**
 * Returns the path of an image. It is a tar archive of the root file system, or a directory with a virtual machine's disk, kernel, initrd
 * and key. The path contains a hash of everything that the image is built from.
 */
export function baseImagePath(name: BaseImageName): string {
  const scripts = isDisk(name) ? DISK_SCRIPTS.map((file) => fs.readFileSync(file, "utf8")) : [];
  const key = createHash("sha256")
    .update(JSON.stringify([mmdebstrapArguments(name, ""), ...scripts]))
    .digest("hex");
  return path.join(cacheDirectory(), `${name}-${key.slice(0, 12)}`);
}

/** Returns the path of an image. An image that is not cached is built first, which takes about half a minute. */
export async function ensureBaseImage(name: BaseImageName): Promise<string> {
  const target = baseImagePath(name);
  if (!fs.existsSync(target)) {
    fs.mkdirSync(cacheDirectory(), { recursive: true, mode: 0o700 });
    removeUnused();
    // The kernel releases the lock when the process that locked it ends, even if that process is killed.
    const lock = ["flock", "--timeout", String(LOCK_SECONDS_MAX), path.join(cacheDirectory(), "lock")];
    const command = [...lock, process.execPath, import.meta.filename, name];
    outputOf(command, await runCommand(command, { timeout_ms: BUILD_MS_MAX }));
  }
  fs.utimesSync(target, new Date(), new Date());
  return target;
}

function removeUnused(): void {
  for (const entry of fs.readdirSync(cacheDirectory())) {
    const file = path.join(cacheDirectory(), entry);
    const { mtimeMs } = fs.statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: Infinity };
    if (Object.hasOwn(BASE_IMAGES, entry.split("-")[0] ?? "") && Date.now() - mtimeMs > UNUSED_MS_MAX)
      fs.rmSync(file, { recursive: true, force: true });
  }
}

function mmdebstrapArguments(name: BaseImageName, output: string): string[] {
  const excluded = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"];
  return [
    "--quiet",
    "--mode=root",
    "--variant=minbase",
    "--arch=amd64",
    `--include=${BASE_IMAGES[name].join(",")}`,
    '--aptopt=APT::Sandbox::User "root"',
    '--aptopt=Acquire::Languages "none"',
    // Skip Debian's initrd, which takes 20 s to build. The virtual machine has its own small initrd.
    ...(isDisk(name) ? ["--dpkgopt=path-exclude=/etc/kernel/postinst.d/initramfs-tools"] : []),
    ...excluded.map((glob) => `--dpkgopt=path-exclude=${glob}`),
    // Machines of the tests cannot reach Debian's servers. They install packages only from the server under test.
    '--customize-hook=: > "$1/etc/apt/sources.list"',
    '--customize-hook=rm -f "$1/etc/hostname" "$1/etc/resolv.conf"; : > "$1/etc/machine-id"',
    SUITE,
    output,
  ];
}

/** Builds an image if it still does not exist. Runs under the lock, so that no other process uses the temporary directory. */
async function build(name: BaseImageName): Promise<void> {
  const target = baseImagePath(name);
  if (fs.existsSync(target)) return;
  const building = path.join(cacheDirectory(), "building");
  // A killed build leaves its files in this directory.
  fs.rmSync(building, { recursive: true, force: true });
  fs.mkdirSync(building);
  process.env.TMPDIR = building;
  const output = path.join(building, isDisk(name) ? "root" : "image.tar");
  const run = async (...command: string[]) => outputOf(command, await runCommand(command, { timeout_ms: BUILD_MS_MAX }));
  await run("mmdebstrap", ...mmdebstrapArguments(name, output));
  const [disk_script = ""] = DISK_SCRIPTS;
  if (isDisk(name)) await run(disk_script, output, path.join(building, "disk"));
  fs.renameSync(isDisk(name) ? path.join(building, "disk") : output, target);
  fs.rmSync(building, { recursive: true, force: true });
}

if (import.meta.main) await build(process.argv[2] as BaseImageName);
