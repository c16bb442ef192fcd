import { readFile } from "node:fs/promises";
import { totalmem } from "node:os";
import type { Limits } from "../../config.ts";
import { type Check, ok, problem, type Seen, shownBytes, skipped, warning } from "../finding.ts";
import { RELEASED } from "../../kernel/tls/certificate-authority.ts";

const NODE_MAJOR_MIN = 24;
/** Files that the server opens besides robots' sockets: connections to database, bus and store, dashboard files, other requests. */
const FILES_BESIDE_ROBOTS = 1_000;
/** Memory of the server without robots, with the dashboard loaded. */
const MEMORY_AT_REST_BYTES = 256 * 1024 ** 2;
/** Memory of one idle robot over TLS, as measured by the benchmark. */
const MEMORY_OF_ROBOT_BYTES = 60_000;

export const nodeCheck: Check = { name: "node", check: () => [evaluateNode(process.versions.node)] };

export function evaluateNode(version: string): Seen {
  if (Number.parseInt(version, 10) >= NODE_MAJOR_MIN) return ok(`Node ${version}`);
  return problem(
    `Node ${version}; ${NODE_MAJOR_MIN} or newer is needed`,
    "start it with bin/roamfleet.mjs, which includes Node, or install Node 24",
  );
}

export const clockCheck: Check = { name: "clock", check: ({ clock }) => [evaluateClock(clock.now())] };

export function evaluateClock(now: Date): Seen {
  const shown = now.toISOString();
  if (now >= RELEASED.not_before) return ok(shown);
  return problem(`${shown}, which is before the release of this program`, "set the clock: certificates and schedules depend on it");
}

export const openFilesCheck: Check = {
  name: "open files",
  async check({ settings }) {
    const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
    const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits) ?? [];
    if (soft === undefined || hard === undefined) return [skipped("this system does not report its limits in /proc")];
    return [evaluateOpenFiles(soft === "unlimited" ? Infinity : Number(soft), settings.limits)];
  },
};

/** Evaluates the open files limit of this process, `limit`. A service manager may set a different limit for the server. */
export function evaluateOpenFiles(limit: number, { robots_max, unauthenticated_links_max }: Limits): Seen {
  const needed = robots_max + unauthenticated_links_max + FILES_BESIDE_ROBOTS;
  const seen = `${limit === Infinity ? "no limit" : `at most ${limit}`} here; ${needed} are needed for robots_max=${robots_max}`;
  if (limit >= needed) return ok(seen);
  return warning(
    seen,
    `raise the limit where the server is started (LimitNOFILE=${needed} in a systemd unit, ulimit -n ${needed} in a shell), or use --limit robots_max=${Math.max(0, limit - unauthenticated_links_max - FILES_BESIDE_ROBOTS)}`,
  );
}

export const memoryCheck: Check = {
  name: "memory",
  check: ({ settings }) => {
    const allowed = process.constrainedMemory();
    const there = totalmem();
    return [evaluateMemory(allowed > 0 && allowed < there ? allowed : there, settings.limits)];
  },
};

/** Evaluates whether the memory of the machine or the container, `there` bytes, is enough. */
export function evaluateMemory(there: number, { robots_max }: Limits): Seen {
  const needed = MEMORY_AT_REST_BYTES + robots_max * MEMORY_OF_ROBOT_BYTES;
  const seen = `${shownBytes(there)}; about ${shownBytes(needed)} are needed for robots_max=${robots_max} idle robots over TLS`;
  if (there >= needed) return ok(seen);
  const fit = Math.max(0, Math.floor((there - MEMORY_AT_REST_BYTES) / MEMORY_OF_ROBOT_BYTES));
  return warning(seen, `add memory, or use --limit robots_max=${fit}`);
}
