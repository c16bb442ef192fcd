import { spawn } from "node:child_process";
import { randomUUID, createHash } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { WebSocket } from "ws";
import { tarGz } from "../../packages/agent/src/testing/bundles.ts";
import { type BenchAgent, bytesOnWire, bytesToDisk, withAgents } from "../agents.ts";
import { delayFile } from "../memory-file.ts";
import { ratioOf, residentBytes, type Sample, sample } from "../measure.ts";
import type { Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";
import { pushBundle, waitFor } from "../swarm.ts";

const DAY_S = 86_400;
const MB = 1e6;
const ROS_SIZES = [0, 40, 200] as const;
/** Wait before the measurement, in which the first health snapshot, the startup log and garbage collections complete. */
const SETTLE_S = 20;
/** Duration of the measurement: a multiple of the intervals of heartbeats and of health. */
const IDLE_S = 240;
const LOG_S = 120;
const FSYNC_S = 120;
const IDLE_MB_MAX = 1;
const LOG_MB_MAX = 25;
const FSYNCS_MAX = 12;
const RSS_MB_MAX = 64;
const BLOCKED_MS_MAX = 10;

const portOf = (rig: Rig): number => Number(new URL(rig.server.url).port);
const one = (value: number): Sample => sample([value]);
const atMost = (value: number, max: number, unit: string): Pick<RowResult, "goal" | "met"> => ({
  goal: `≤ ${max} ${unit}`,
  met: value <= max,
});

/** Parts of a measurement, which show how much its figure varies. */
const WINDOWS = 4;

/** Measures how much each counter grows in each of WINDOWS equal parts of `seconds`. */
async function growth(seconds: number, counters: readonly (() => number)[]): Promise<number[][]> {
  const grown: number[][] = counters.map(() => []);
  for (let i = 0; i < WINDOWS; i += 1) {
    const before = counters.map((count) => count());
    await sleep((seconds * 1_000) / WINDOWS);
    for (const [at, count] of counters.entries()) grown[at]?.push(count() - (before[at] ?? 0));
  }
  return grown;
}

/** Converts the growth in each window to a rate per `unit_s` seconds. Returns the lowest, the highest, and the mean, which is in `median`. */
function rateOf(grown: readonly number[], seconds: number, unit_s: number): Sample {
  const rates = grown.map((count) => (count * unit_s * WINDOWS) / seconds);
  return { ...sample(rates), median: rates.reduce((sum, rate) => sum + rate, 0) / WINDOWS };
}

/** The limit of an idle link: a WebSocket on the same server's port that sends a ping as often as an agent sends a heartbeat. */
async function openBare(rig: Rig, every_s: number): Promise<{ bytes: () => number; close: () => void }> {
  const program = await rig.start("limits/sockets");
  const socket = new WebSocket(program.url.replace(/^http/, "ws"), { perMessageDeflate: false, ca: rig.certificate?.ca });
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  const beat = setInterval(() => socket.ping(), every_s * 1_000);
  return {
    bytes: () => bytesOnWire(process.pid, Number(new URL(program.url).port)),
    close: () => {
      clearInterval(beat);
      socket.terminate();
      void program.stop();
    },
  };
}

const HEARTBEAT_S = 30;

export const agentIdleBytes: Row = {
  name: "agent-idle-bytes",
  area: "agent",
  waits: true,
  about:
    `bytes on the wire of an idle robot in 24 h, from ${IDLE_S} s on an idle machine, with TLS and the headers of packets, by the number of its ROS nodes and topics; ` +
    `compared with a bare WebSocket that sends a ping every ${HEARTBEAT_S} s`,
  server: { tls: true, default_intervals: true },
  run: (rig) =>
    withAgents(
      rig,
      ROS_SIZES.map((ros) => ({ ros })),
      async (agents) => {
        const seconds = rig.quick ? 60 : IDLE_S;
        const bare = await openBare(rig, HEARTBEAT_S);
        await sleep(SETTLE_S * 1_000);
        const counters = [
          bare.bytes,
          ...agents.map(
            ({ pid }) =>
              () =>
                bytesOnWire(pid, portOf(rig)),
          ),
        ];
        const grown = await growth(seconds, counters);
        const [limit, ...all] = grown.map((bytes) => rateOf(bytes, seconds, DAY_S / MB)) as [Sample, ...Sample[]];
        bare.close();
        const lines = all.map((ours, i) => ({
          part: `${ROS_SIZES[i]} nodes`,
          ours,
          limit,
          unit: "MB",
          ratio: ratioOf(ours, limit),
          figure: `${ours.median.toFixed(2)} MB`,
          ...(ROS_SIZES[i] === 40 ? atMost(ours.median, IDLE_MB_MAX, "MB") : {}),
        }));
        // The line with the goal comes first, because the first line is the row's total.
        return lines.toSorted((a, b) => Number("goal" in b) - Number("goal" in a));
      },
    ),
};

/** Log lines as written by navigation, drivers and the robot's own software. Each # is replaced by a varying digit. */
const LINES = [
  "[controller_server]: Passing new path to controller, distance to goal #.## m, last cycle took ## ms, no recovery",
  "[planner_server]: Found a path with ### poses in ## ms, cost #.##, using the planner plugin GridBased (NavfnPlanner)",
  "[velodyne_driver]: Published cloud with 28### points, rpm 59#, dropped packets 0, device time offset 0.00# s (ok)",
  "[amcl]: Resampled 2000 particles, effective sample size 1###, pose covariance 0.0##, last update ## ms ago",
  "[battery_node]: Pack voltage 25.## V, current -#.## A, temperature 31.# C, state of charge 8#.# percent, healthy",
  "[task_runner]: Step pick_tote finished in #.## s, 4## steps done today, queue holds ## tasks, gripper at 0.0# mm",
];
const LINE_CHARACTERS = 104;
function logLine(i: number): string {
  const digits = createHash("sha512").update(String(i)).digest("hex").replace(/\D/g, "");
  let used = 0;
  const line = LINES[Number(digits.slice(-2)) % LINES.length] ?? "";
  return line.replace(/#/g, () => digits[(used += 1)] ?? "0").slice(0, LINE_CHARACTERS);
}

const LINES_PER_S = 10;
const SCRIPT = `const { readFileSync } = require("node:fs");
const lines = readFileSync("lines.txt", "utf8").trim().split("\\n");
let i = 0;
setInterval(() => console.log(lines[i++ % lines.length]), ${1_000 / LINES_PER_S});`;

/** Installs an app that logs lines, and waits until it runs. */
async function deployLogger(rig: Rig, { robot_id }: BenchAgent, lines: readonly string[]): Promise<void> {
  const bytes = await tarGz([
    { name: "roamfleet.json", content: JSON.stringify({ start: [process.execPath, "log.cjs"] }) },
    { name: "log.cjs", content: SCRIPT },
    { name: "lines.txt", content: lines.join("\n") },
  ]);
  const release = await pushBundle(rig, bytes);
  const { data: made } = await rig.api.createDeployment({ body: { release, robot_id }, idempotency_key: randomUUID() });
  await waitFor("the app to run", async () => {
    const { status } = (await rig.api.getDeployment({ params: { id: made.id } })).data;
    if (status === "failed" || status === "rolled_back") throw new Error(`the deployment is ${status}`);
    return status === "applied";
  });
}

/** The longest block of the event loop in each window, in milliseconds: see event-loop.mjs. */
interface Blocks {
  total: Sample;
  own: Sample;
}

/** Runs `work`, and measures the longest block of the agent's event loop in each window. */
async function blockedDuring<T>({ pid }: BenchAgent, work: () => Promise<T>): Promise<{ result: T; blocked: Blocks }> {
  process.kill(pid, "SIGUSR2");
  const result = await work();
  process.kill(pid, "SIGUSR2");
  await sleep(500);
  const windows = JSON.parse(readFileSync(delayFile(pid), "utf8")) as Record<keyof Blocks, number>[];
  return { result, blocked: { total: sample(windows.map(({ total }) => total)), own: sample(windows.map(({ own }) => own)) } };
}

export const agentLogBytes: Row = {
  name: "agent-log-bytes",
  area: "agent",
  waits: true,
  about:
    `bytes on the wire in 24 h of a robot whose app logs ${LINES_PER_S} lines of ${LINE_CHARACTERS} characters a second, from ${LOG_S} s, with TLS and the headers of packets; ` +
    `compared with the same lines as one gzip file. A block of the event loop does not include time in which the agent waited for a processor`,
  server: { tls: true, default_intervals: true },
  run: (rig) =>
    withAgents(rig, [{ measure_loop: true }], async ([agent]) => {
      const seconds = rig.quick ? 30 : LOG_S;
      const lines = Array.from({ length: LINES_PER_S * seconds }, (_, i) => logLine(i));
      await deployLogger(rig, agent!, lines);
      await sleep(SETTLE_S * 1_000);
      const counters = [() => bytesOnWire(agent!.pid, portOf(rig)), () => bytesToDisk(agent!)];
      const { result, blocked } = await blockedDuring(agent!, () => growth(seconds, counters));
      const [wire, disk] = result.map((bytes) => rateOf(bytes, seconds, DAY_S / MB)) as [Sample, Sample];
      const limit = one((gzipSync(lines.join("\n")).length * DAY_S) / seconds / MB);
      const wire_line = {
        part: "on the wire",
        ours: wire,
        limit,
        unit: "MB",
        ratio: ratioOf(wire, limit),
        figure: `${wire.median.toFixed(1)} MB`,
        ...atMost(wire.median, LOG_MB_MAX, "MB"),
      };
      return [
        wire_line,
        { part: "written to the disk", ours: disk, unit: "MB" },
        {
          part: "longest block of the event loop in 10 s",
          ours: blocked.own,
          unit: "ms",
          figure: `${blocked.own.median.toFixed(1)} ms`,
          ...atMost(blocked.own.median, BLOCKED_MS_MAX, "ms"),
        },
        { part: "the same, with waits for a processor", ours: blocked.total, unit: "ms" },
      ];
    }),
};

/** Counts the fsync calls of a process from outside, by strace. */
async function countFsyncs(pid: number, seconds: number): Promise<number> {
  const tracer = spawn("strace", ["-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,syncfs", "-p", String(pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let text = "";
  const failed = new Promise<never>((_, reject) => tracer.once("error", () => reject(new Error("strace is not installed"))));
  tracer.stderr.setEncoding("utf8").on("data", (some: string) => (text += some));
  const ended = new Promise((resolve) => tracer.once("close", resolve));
  await Promise.race([sleep(seconds * 1_000), failed]);
  tracer.kill("SIGINT");
  await ended;
  if (text.includes("attach:")) throw new Error(`strace cannot attach: ${text.trim()}`);
  return text.split("\n").filter((line) => /(?:fsync|fdatasync|sync_file_range|syncfs)\(/.test(line)).length;
}

export const agentFsyncs: Row = {
  name: "agent-fsyncs",
  area: "agent",
  waits: true,
  about: `calls of fsync a minute, counted by strace for ${FSYNC_S} s, of a robot that follows 3 log files with a line a second each`,
  server: { tls: true, default_intervals: true },
  run: (rig) =>
    withAgents(rig, [{ config: "logs: { files: [$DIR/*.log] }\n" }], async ([agent]) => {
      const seconds = rig.quick ? 40 : FSYNC_S;
      const files = ["a", "b", "c"].map((name) => path.join(agent!.directory, `${name}.log`));
      let i = 0;
      const writing = setInterval(() => {
        for (const file of files) appendFileSync(file, `${logLine((i += 1))}\n`);
      }, 1_000);
      try {
        await sleep(SETTLE_S * 1_000);
        const [count, [disk = []]] = await Promise.all([countFsyncs(agent!.pid, seconds), growth(seconds, [() => bytesToDisk(agent!)])]);
        const fsyncs = (count * 60) / seconds;
        return [
          {
            part: "fsync",
            ours: one(fsyncs),
            unit: "a minute",
            figure: fsyncs.toFixed(1),
            ...atMost(fsyncs, FSYNCS_MAX, "a minute"),
          },
          { part: "written to the disk", ours: rateOf(disk, seconds, 60 / 1_000), unit: "KB a minute" },
        ];
      } finally {
        clearInterval(writing);
      }
    }),
};

export const agentRss: Row = {
  name: "agent-rss",
  area: "agent",
  waits: true,
  about: `resident memory of the bundled agent with 40 ROS nodes after ${IDLE_S / 2} s; compared with \`node\` that waits for a timer`,
  server: { tls: true, default_intervals: true },
  run: (rig) =>
    withAgents(rig, [{ ros: 40 }], async ([agent]) => {
      const bare = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
      await sleep(((rig.quick ? 20 : IDLE_S / 2) + SETTLE_S) * 1_000);
      const [ours, limit] = [residentBytes(agent!.pid) / MB, residentBytes(bare.pid ?? 0) / MB];
      bare.kill();
      return {
        ours: one(ours),
        limit: one(limit),
        unit: "MB",
        ratio: ours / limit,
        figure: `${ours.toFixed(1)} MB`,
        ...atMost(ours, RSS_MB_MAX, "MB"),
      };
    }),
};
