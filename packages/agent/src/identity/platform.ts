import { readFileSync } from "node:fs";
import { arch, hostname, platform, release } from "node:os";
import { join } from "node:path";
import type { Platform } from "@roamfleet/protocol/link";

/** Returns the robot's os (from os-release), arch, hostname and kernel. */
export function readPlatform(system_root: string): Platform {
  return { os: osName(system_root).slice(0, 200), arch: arch(), hostname: hostname().slice(0, 255), kernel: release().slice(0, 200) };
}

function osName(system_root: string): string {
  try {
    const text = readFileSync(join(system_root, "etc/os-release"), "utf8");
    const name = /^PRETTY_NAME="?([^"\n]+)"?$/m.exec(text)?.[1];
    return name ?? platform();
  } catch {
    return platform();
  }
}

/** Returns the id of this boot of the machine; `unknown` if the kernel does not provide it. */
export function readBootId(system_root: string): string {
  try {
    return readFileSync(join(system_root, "proc/sys/kernel/random/boot_id"), "utf8").trim() || "unknown";
  } catch {
    return "unknown";
  }
}
