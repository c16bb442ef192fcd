import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { signalGroup } from "../../runtime/processes.ts";

const ROSCORE = "/usr/bin/roscore";
/**
 * The system's Python, for which Debian's ROS is built. The first Python on the PATH may be another
 * one.
 */
const PYTHON = "/usr/bin/python3";

/** Why tests with a real ROS 1 cannot run here; false if they can. */
export const NO_ROS1 = existsSync(ROSCORE) ? false : "Debian's ros-core is not installed";

/** A separate ROS master whose files are all in a temporary directory. */
export interface Roscore {
  uri: string;
  env: Record<string, string>;
  /** Runs a Python program with this master until the test ends or the program is stopped. */
  python(source: string): Promise<Ros1Process>;
  /** Returns the stdout of a ROS tool. */
  output(program: string, ...args: string[]): Promise<string>;
  stop(): Promise<void>;
}

export interface Ros1Process {
  stop(): Promise<void>;
}

export async function startRoscore(t: TestContext): Promise<Roscore> {
  const directory = await mkdtemp(join(tmpdir(), "rf-roscore-"));
  const port = await freePort();
  const uri = `http://127.0.0.1:${port}`;
  const env = {
    PATH: "/usr/bin:/bin",
    HOME: directory,
    ROS_HOME: directory,
    ROS_LOG_DIR: join(directory, "log"),
    ROS_MASTER_URI: uri,
    ROS_HOSTNAME: "127.0.0.1",
    ROS_DISTRO: "debian",
    PYTHONUNBUFFERED: "1",
  };
  const stops: (() => Promise<void>)[] = [];
  const run = (program: string, ...args: string[]): { child: ChildProcess; stop: () => Promise<void> } => {
    const child = spawn(program, args, { env, cwd: directory, detached: true, stdio: ["ignore", "pipe", "ignore"] });
    const ended = once(child, "exit");
    const stop = async (): Promise<void> => {
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
      await ended;
    };
    stops.push(stop);
    return { child, stop };
  };
  /**
   * Starts roscore. Its children have separate process groups, and end only if roscore is terminated
   * gracefully.
   */
  const startMaster = (): (() => Promise<void>) => {
    const child = spawn(ROSCORE, ["-p", String(port)], { env, cwd: directory, detached: true, stdio: "ignore" });
    const ended = once(child, "exit");
    const stop = async (): Promise<void> => {
      child.kill("SIGINT");
      await ended;
    };
    stops.push(stop);
    return stop;
  };
  t.after(async () => {
    for (const stop of stops.toReversed()) await stop();
    await rm(directory, { recursive: true, force: true });
  });
  const stop = startMaster();
  await answering(uri);
  return {
    uri,
    env,
    stop,
    async python(source) {
      const file = join(directory, `${stops.length}.py`);
      await writeFile(file, source);
      const { child, stop } = run(PYTHON, file);
      child.stdout?.resume();
      return { stop };
    },
    async output(program, ...args) {
      const { child } = run(program, ...args);
      let text = "";
      child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
      await once(child, "close");
      return text;
    },
  };
}

/** Resolves when roscore has set both of its parameters. It may set them in either order. */
const answering = (uri: string): Promise<boolean> =>
  until("roscore to have started", async () => (await hasParameter(uri, "/run_id")) && (await hasParameter(uri, "/rosdistro")), {
    poll_ms: 50,
  });

async function hasParameter(uri: string, name: string): Promise<boolean> {
  const params = ["/test", name].map((value) => `<param><value>${value}</value></param>`).join("");
  const body = `<?xml version="1.0"?><methodCall><methodName>hasParam</methodName><params>${params}</params></methodCall>`;
  try {
    const answer = await fetch(uri, { method: "POST", body, headers: { "content-type": "text/xml" } });
    return (await answer.text()).includes("<boolean>1</boolean>");
  } catch {
    return false;
  }
}
