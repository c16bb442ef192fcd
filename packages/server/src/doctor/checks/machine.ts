import { readFile } from "node:fs/promises";
import { totalmem } from "node:os";
import type { Limits } from "../../config.ts";
import type { Check } from "../context.ts";
import { RELEASED } from "../../kernel/released.ts";
import { ok, problem, type Seen, skipped, warning } from "../finding.ts";
import { shownBytes } from "../shown.ts";

const NODE_MAJOR_MIN = 24;
/** Connections to database, bus and store, files of the dashboard, requests of people. */
const FILES_BESIDE_ROBOTS = 1_000;
/** Of the server without robots, with the dashboard in memory. */
const MEMORY_AT_REST_BYTES = 256 * 1024 ** 2;
/** Of one idle robot over TLS, as the bench measures it. */
const MEMORY_OF_ROBOT_BYTES = 60_000;

export const nodeCheck: Check = { name: "node", check: () => [judgeNode(process.versions.node)] };

export function judgeNode(version: string): Seen {
  if (Number.parseInt(version, 10) >= NODE_MAJOR_MIN) return ok(`Node ${version}`);
  return problem(
    `Node ${version}; ${NODE_MAJOR_MIN} or newer is needed`,
    "start it by bin/roamfleet.mjs, which brings its own, or install Node 24",
  );
}

export const clockCheck: Check = { name: "clock", check: ({ clock }) => [evaluateClock(clock.now())] };

export function evaluateClock(now: Date): Seen {
  const shown = now.toISOString();
  if (now >= RELEASED.not_before) return ok(shown);
  return problem(`${shown}, before this program was made`, "set the clock: certificates and schedules depend on it");
}

export const openFilesCheck: Check = {
  name: "open files",
  async check({ settings }) {
    const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
    const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits) ?? [];
    if (soft === undefined || hard === undefined) return [skipped("this system does not tell its limits in /proc")];
    return [judgeOpenFiles(soft === "unlimited" ? Infinity : Number(soft), settings.limits)];
  },
};

/** `limit` is that of this process; that of a service manager's may be another. */
export function judgeOpenFiles(limit: number, { robots_max, unauthenticated_links_max }: Limits): Seen {
  const needed = robots_max + unauthenticated_links_max + FILES_BESIDE_ROBOTS;
  const seen = `${limit === Infinity ? "no limit" : `at most ${limit}`} here; ${needed} are needed for robots_max=${robots_max}`;
  if (limit >= needed) return ok(seen);
  return warning(
    seen,
    `raise it where the server is started (LimitNOFILE=${needed} in a systemd unit, ulimit -n ${needed} in a shell), or --limit robots_max=${Math.max(0, limit - unauthenticated_links_max - FILES_BESIDE_ROBOTS)}`,
  );
}

export const memoryCheck: Check = {
  name: "memory",
  check: ({ settings }) => {
    const allowed = process.constrainedMemory();
    const there = totalmem();
    return [judgeMemory(allowed > 0 && allowed < there ? allowed : there, settings.limits)];
  },
};

/** `there` is what the machine or the container has, in bytes. */
export function judgeMemory(there: number, { robots_max }: Limits): Seen {
  const needed = MEMORY_AT_REST_BYTES + robots_max * MEMORY_OF_ROBOT_BYTES;
  const seen = `${shownBytes(there)}; some ${shownBytes(needed)} are taken by robots_max=${robots_max} idle robots over TLS`;
  if (there >= needed) return ok(seen);
  const fit = Math.max(0, Math.floor((there - MEMORY_AT_REST_BYTES) / MEMORY_OF_ROBOT_BYTES));
  return warning(seen, `more memory, or --limit robots_max=${fit}`);
}
