import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { statfs } from "node:fs/promises";
import { type Clock, within } from "@roamfleet/clock";

/**
 * The functions in this file read /proc and /sys below a root directory, which tests replace. They return null, empty or 0 for a missing
 * value, and never throw.
 */

/** Returns the content of a small file; empty if it cannot be read. */
function readSmall(...path: string[]): string {
  try {
    return readFileSync(join(...path), "utf8");
  } catch {
    return "";
  }
}

function listNames(...path: string[]): string[] {
  try {
    return readdirSync(join(...path)).sort();
  } catch {
    return [];
  }
}

const numberOr = (text: string | undefined, otherwise: number): number => {
  const value = Number.parseFloat(text ?? "");
  return Number.isFinite(value) ? value : otherwise;
};

export const readUptimeSeconds = (root: string): number => numberOr(readSmall(root, "proc/uptime").split(" ")[0], 0);
export const readLoad1m = (root: string): number => numberOr(readSmall(root, "proc/loadavg").split(" ")[0], 0);

export interface CpuTimes {
  busy: number;
  total: number;
  cores: number;
}

/** Returns the busy and total CPU time since boot, in ticks, summed over all cores. */
export function readCpuTimes(root: string): CpuTimes {
  const lines = readSmall(root, "proc/stat").split("\n");
  // Columns: user nice system idle iowait irq softirq steal. Guest time is already included in user.
  const ticks = (lines[0] ?? "")
    .trim()
    .split(/\s+/)
    .slice(1, 9)
    .map((tick) => numberOr(tick, 0));
  const total = ticks.reduce((sum, tick) => sum + tick, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { busy: total - idle, total, cores: Math.max(1, lines.filter((line) => /^cpu\d/.test(line)).length) };
}

/** Returns the usage between two readings over all cores, in percent with one decimal; undefined if no time has passed. */
export function cpuPercent(before: CpuTimes, now: CpuTimes): number | undefined {
  const total = now.total - before.total;
  if (total <= 0) return undefined;
  return Math.round(Math.min(100, Math.max(0, (100 * (now.busy - before.busy)) / total)) * 10) / 10;
}

/** Returns the memory of the robot. Used memory is the total minus MemAvailable: what the kernel cannot free by dropping caches. */
export function readMemory(root: string): { used_bytes: number; total_bytes: number } {
  const values = new Map<string, number>();
  for (const line of readSmall(root, "proc/meminfo").split("\n")) {
    const match = /^(\w+):\s+(\d+) kB/.exec(line);
    if (match) values.set(match[1]!, Number(match[2]) * 1024);
  }
  const total_bytes = values.get("MemTotal") ?? 0;
  const available = values.get("MemAvailable") ?? (values.get("MemFree") ?? 0) + (values.get("Cached") ?? 0);
  return { used_bytes: Math.max(0, total_bytes - available), total_bytes };
}

/**
 * Returns the temperature of the hottest thermal zone, or of the hottest hardware sensor if there is no zone; null if there is neither.
 * Disabled sensors have invalid values and are ignored.
 */
export function readTemperatureCelsius(root: string): number | null {
  const zones = listNames(root, "sys/class/thermal")
    .filter((name) => name.startsWith("thermal_zone"))
    .map((name) => readSmall(root, "sys/class/thermal", name, "temp"));
  const sensors = listNames(root, "sys/class/hwmon").flatMap((device) =>
    listNames(root, "sys/class/hwmon", device)
      .filter((name) => /^temp\d+_input$/.test(name))
      .map((name) => readSmall(root, "sys/class/hwmon", device, name)),
  );
  return hottest(zones) ?? hottest(sensors);
}

function hottest(texts: string[]): number | null {
  const celsius = texts.map((text) => numberOr(text, Number.NaN) / 1000).filter((value) => value > -50 && value < 200);
  return celsius.length === 0 ? null : Math.max(...celsius);
}

/** Returns the robot's battery. Several batteries count as one with their average charge. */
export function readBattery(root: string): { percent: number; charging: boolean } | null {
  const percents: number[] = [];
  let charging = false;
  for (const name of listNames(root, "sys/class/power_supply")) {
    const read = (file: string): string => readSmall(root, "sys/class/power_supply", name, file).trim();
    // Skip batteries of devices such as a wireless mouse: they have the scope Device.
    if (read("type") !== "Battery" || read("scope") === "Device") continue;
    const percent = numberOr(read("capacity"), Number.NaN);
    if (Number.isNaN(percent)) continue;
    percents.push(Math.min(100, Math.max(0, percent)));
    charging ||= read("status") === "Charging" || read("status") === "Full";
  }
  if (percents.length === 0) return null;
  return { percent: Math.round(percents.reduce((sum, percent) => sum + percent, 0) / percents.length), charging };
}

const INTERFACES_MAX = 64;

/** Returns counters since boot of each interface except the loopback. */
export function readNetwork(root: string): { name: string; rx_bytes: number; tx_bytes: number }[] {
  const interfaces: { name: string; rx_bytes: number; tx_bytes: number }[] = [];
  for (const line of readSmall(root, "proc/net/dev").split("\n")) {
    const match = /^\s*([^:\s]+):\s*(.*)$/.exec(line);
    if (!match || match[1] === "lo") continue;
    const counters = match[2]!.split(/\s+/);
    interfaces.push({ name: match[1]!, rx_bytes: numberOr(counters[0], 0), tx_bytes: numberOr(counters[8], 0) });
  }
  return interfaces.slice(0, INTERFACES_MAX);
}

interface Disk {
  mount: string;
  used_bytes: number;
  total_bytes: number;
}

const DISKS_MAX = 64;
const STATFS_TIMEOUT_MS = 2_000;
/** Types of read-only disk images. They are excluded because they are always full, which would be reported as an error. */
const IMAGE = /^(squashfs|iso9660|erofs|cramfs)$/;
/**
 * File systems that do not count as a disk of this machine, except as its root. Some are network file systems, and access to those could
 * block forever.
 */
const NO_DISK = /^(proc|sysfs|tmpfs|devtmpfs|ramfs|nfs\d?|cifs|smb3|9p|ceph|autofs|fuse\.(?!fuseblk).*)$/;

interface Mount {
  device: string;
  mount: string;
  type: string;
}

/**
 * Returns the mounted disks. A disk with several mount points appears once, with the shortest one. A disk that does not answer is omitted.
 */
export async function readDisks(root: string, clock: Clock): Promise<Disk[]> {
  const mounts = new Map<string, Mount>();
  for (const line of readSmall(root, "proc/mounts").split("\n")) {
    const [device, mount, type] = line.split(" ").map(unescape);
    if (!device || !mount || !type || IMAGE.test(type)) continue;
    // Accept any device and type for the root: in containers, on overlays and on diskless robots, the mount of the root is the disk.
    if (mount !== "/" && (!device.startsWith("/dev/") || NO_DISK.test(type))) continue;
    const known = mounts.get(device);
    if (known === undefined || mount.length < known.mount.length) mounts.set(device, { device, mount, type });
  }
  const disks = await Promise.all([...mounts.values()].slice(0, DISKS_MAX).map(({ mount }) => readDisk(root, mount, clock)));
  return disks.filter((disk) => disk !== undefined).sort((a, b) => (a.mount < b.mount ? -1 : 1));
}

/** Decodes the octal escapes of /proc/mounts, such as `\040` for a space. */
const unescape = (text: string): string => text.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

async function readDisk(root: string, mount: string, clock: Clock): Promise<Disk | undefined> {
  try {
    const stats = await within(clock, STATFS_TIMEOUT_MS, statfs(join(root, mount)));
    if (stats === undefined || stats.blocks === 0) return undefined;
    const used = (stats.blocks - stats.bfree) * stats.bsize;
    // Blocks that are reserved for root count neither as used nor as available, as in df.
    return { mount: mount.slice(0, 500), used_bytes: used, total_bytes: used + stats.bavail * stats.bsize };
  } catch {
    return undefined;
  }
}
