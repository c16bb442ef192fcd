import { statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { readSmall } from "./read-proc.ts";

export interface Disk {
  mount: string;
  used_bytes: number;
  total_bytes: number;
}

const DISKS_MAX = 64;
const STATFS_TIMEOUT_MS = 2_000;
/** Not disks of this machine, or (network) able to block the caller forever. */
const NO_DISK = /^(proc|sysfs|tmpfs|devtmpfs|ramfs|squashfs|iso9660|nfs\d?|cifs|smb3|9p|ceph|autofs|fuse\.(?!fuseblk).*)$/;

interface Mount {
  device: string;
  mount: string;
  type: string;
}

/** Returns the mounted disks, each device once, by its shortest mount point; always including the root. A disk that does not answer is left out. */
export async function readDisks(root: string, clock: Clock): Promise<Disk[]> {
  const mounts = new Map<string, Mount>();
  for (const line of readSmall(root, "proc/mounts").split("\n")) {
    const [device, mount, type] = line.split(" ").map(unescape);
    if (!device || !mount || !type || NO_DISK.test(type)) continue;
    // For containers and overlays: the mount of the root is the disk, under any device name.
    if (!device.startsWith("/dev/") && mount !== "/") continue;
    const known = mounts.get(device);
    if (known === undefined || mount.length < known.mount.length) mounts.set(device, { device, mount, type });
  }
  const disks = await Promise.all([...mounts.values()].slice(0, DISKS_MAX).map(({ mount }) => readDisk(root, mount, clock)));
  return disks.filter((disk) => disk !== undefined).sort((a, b) => (a.mount < b.mount ? -1 : 1));
}

/** /proc/mounts writes spaces and similar characters as octal. */
const unescape = (text: string): string => text.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

async function readDisk(root: string, mount: string, clock: Clock): Promise<Disk | undefined> {
  const given_up = new AbortController();
  const timer = clock.setTimer(STATFS_TIMEOUT_MS, () => given_up.abort());
  try {
    const timeout = new Promise<undefined>((resolve) => given_up.signal.addEventListener("abort", () => resolve(undefined)));
    const stats = await Promise.race([statfs(join(root, mount)), timeout]);
    if (stats === undefined || stats.blocks === 0) return undefined;
    const used = (stats.blocks - stats.bfree) * stats.bsize;
    // As in df: blocks reserved for root count neither as used nor as available.
    return { mount: mount.slice(0, 500), used_bytes: used, total_bytes: used + stats.bavail * stats.bsize };
  } catch {
    return undefined;
  } finally {
    timer.cancel();
  }
}
