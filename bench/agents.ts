import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { buildAgent } from "../packages/agent/build.ts";
import { RosbridgeServer } from "../packages/agent/src/ros/testing/rosbridge-server.ts";
import { processesWithEnvironment, WRAPPER_VARIABLE } from "../packages/agent/src/runtime/processes.ts";
import { endChild, type Rig } from "./rig.ts";
import { waitFor } from "./swarm.ts";

/** A bundled agent that is connected to the rig's server. */
export interface BenchAgent {
  readonly pid: number;
  readonly robot_id: string;
  readonly directory: string;
}

export interface AgentSettings {
  /** The robot's config file. */
  config?: string;
  /** Starts a rosbridge server that lists this many ROS topics, and as many nodes. */
  ros?: number;
  /** Preloads the probe that `blockedDuring` needs. It is off by default, because the probe takes memory. */
  measure_loop?: boolean;
}

const STOP_TIMEOUT_MS = 15_000;
/** A directory in memory, as systemd creates it for the agent's unit (`RuntimeDirectory=`). */
const MEMORY_DIRECTORY = "/dev/shm";

/** Starts an agent for each of the settings, then calls `work`. Ends the agents and deletes their directories afterwards. */
export async function withAgents<T>(
  rig: Rig,
  settings: readonly AgentSettings[],
  work: (agents: readonly BenchAgent[]) => Promise<T>,
): Promise<T> {
  const root = await mkdtemp(path.join(tmpdir(), "roamfleet-bench-agents-"));
  const memory = await mkdtemp(path.join(MEMORY_DIRECTORY, "roamfleet-bench-"));
  const ends: (() => unknown)[] = [];
  try {
    const program = await buildAgent(path.join(root, "program"));
    const { data: site } = await rig.api.createSite({ body: { name: `agents ${path.basename(root)}` } });
    const { data: fleet } = await rig.api.createFleet({ body: { name: "bench", site_id: site.id } });
    const { data: key } = await rig.api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id, max_uses: 0 } });
    const agents: BenchAgent[] = [];
    for (const [i, one] of settings.entries()) {
      const directory = path.join(root, `robot-${i}`);
      await mkdir(directory);
      const ros_url = await startRos(one.ros ?? 0, ends);
      const config = path.join(directory, "agent.yaml");
      await writeFile(
        config,
        `ros: { adapters: [rosbridge], rosbridge_url: "${ros_url}" }\n${(one.config ?? "").replaceAll("$DIR", directory)}`,
      );
      const env = { ROAMFLEET_ENROLL_KEY: key.key ?? "", RUNTIME_DIRECTORY: path.join(memory, String(i)) };
      await mkdir(env.RUNTIME_DIRECTORY, { mode: 0o700 });
      const child = startAgent(rig, {
        program,
        directory,
        config,
        name: `agent-${i}`,
        env,
        ...(one.measure_loop === true ? { measure_loop: true } : {}),
      });
      ends.push(() => stop(child, program, directory));
      agents.push({ pid: child.pid ?? 0, robot_id: await robotId(child, directory), directory });
    }
    await waitFor(
      "all agents to be online",
      async () => (await rig.api.getFleet({ params: { id: fleet.id } })).data.online_count === settings.length,
    );
    return await work(agents);
  } finally {
    await Promise.all(ends.map((end) => end()));
    for (const directory of [root, memory]) await rm(directory, { recursive: true, force: true });
  }
}

async function startRos(size: number, ends: (() => unknown)[]): Promise<string> {
  // RosbridgeServer passes its shutdown function to the `after` of a test. This object replaces the test and collects the function in
  // `ends`.
  const ros = await RosbridgeServer.start({ after: (end: () => unknown) => void ends.push(end) }, "/rosapi/");
  for (let i = 0; i < size; i += 1) {
    ros.nodes.push(`/robot/module_${i % 7}/node_${i}`);
    ros.topics.set(`/robot/module_${i % 7}/sensor_${i}/measurements`, { type: "sensor_msgs/msg/Imu", typedefs: [] });
  }
  return ros.url;
}

interface Place {
  program: string;
  directory: string;
  config: string;
  name: string;
  env: Record<string, string>;
  measure_loop?: boolean;
}

function startAgent(rig: Rig, { program, directory, config, name, env, measure_loop }: Place): ChildProcess {
  const ca = rig.certificate === undefined ? [] : ["--ca-file", rig.certificate.ca_file];
  const flags = ["--server", rig.server.url, "--state", path.join(directory, "state"), "--config", config, "--name", name];
  // As the launcher starts it.
  const node_flags = readFileSync(path.join(path.dirname(program), "node-flags"), "utf8")
    .trim()
    .split(" ");
  return spawn(
    process.execPath,
    [
      ...node_flags,
      ...rig.profileFlags(name),
      ...(measure_loop === true ? ["--import", "./bench/event-loop.mjs"] : []),
      program,
      "run",
      ...flags,
      ...ca,
      "--container-socket",
      "none",
      "--log-level",
      "warn",
    ],
    {
      cwd: path.resolve(import.meta.dirname, ".."),
      stdio: ["ignore", "ignore", "inherit"],
      env: { PATH: process.env.PATH ?? "", MALLOC_ARENA_MAX: "1", ...env },
    },
  );
}

async function robotId(child: ChildProcess, directory: string): Promise<string> {
  const file = path.join(directory, "state", "identity", "robot.json");
  await waitFor("an agent to enroll", () => {
    if (child.exitCode !== null) throw new Error(`an agent ended with ${child.exitCode}`);
    return Promise.resolve(existsSync(file));
  });
  return (JSON.parse(readFileSync(file, "utf8")) as { robot_id: string }).robot_id;
}

/** Ends an agent, then its workloads, which would otherwise keep running. */
async function stop(child: ChildProcess, program: string, directory: string): Promise<void> {
  await endChild(child);
  execFileSync(process.execPath, [program, "stop-workloads", "--state", path.join(directory, "state")], { timeout: STOP_TIMEOUT_MS });
}

/** Bytes of the IPv4 and TCP headers of a packet, with timestamps. */
const HEADER_BYTES = 52;
/**
 * Payload of a full packet on Ethernet. Packets on the loopback interface are larger, so the number of packets of a large message is
 * calculated.
 */
const PACKET_BYTES = 1_448;

/**
 * Returns the bytes that a process has sent and received over its TCP connections to `port`, with packet headers, from the kernel's
 * counters.
 */
export function bytesOnWire(pid: number, port: number): number {
  const text = execFileSync("ss", ["-tinpOH", "dst", `127.0.0.1:${port}`], { encoding: "utf8" });
  let bytes = 0;
  for (const line of text.split("\n")) {
    if (!line.includes(`pid=${pid},`)) continue;
    const count = (name: string): number => Number(new RegExp(`\\b${name}:(\\d+)`).exec(line)?.[1] ?? 0);
    for (const [way, segments] of [
      ["bytes_sent", "segs_out"],
      ["bytes_received", "segs_in"],
    ] as const)
      bytes += count(way) + HEADER_BYTES * (count(segments) + Math.floor(count(way) / PACKET_BYTES));
  }
  return bytes;
}

/**
 * Returns the bytes that an agent and the wrappers of its apps have caused the kernel to write to disk. Data that was deleted before it was
 * written does not count. A wrapper's count includes its ended child processes.
 */
export function bytesToDisk({ pid, directory }: BenchAgent): number {
  const configs = path.join(directory, "state", "configs");
  const wrappers = processesWithEnvironment({ ROAMFLEET_CONFIG_DIR: configs, [WRAPPER_VARIABLE]: "1" });
  return [pid, ...wrappers.map((wrapper) => wrapper.pid)].reduce((sum, one) => sum + bytesWritten(one), 0);
}

function bytesWritten(pid: number): number {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/io`, "utf8");
  } catch {
    // The process has ended since it was found.
    return 0;
  }
  const count = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  return count("write_bytes") - count("cancelled_write_bytes");
}
