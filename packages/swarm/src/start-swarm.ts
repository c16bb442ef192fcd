import type { RobotOptions } from "./simulated-robot.ts";
import { SimulatedRobot } from "./simulated-robot.ts";
import { Swarm, type SwarmOptions } from "./swarm.ts";

export interface StartSwarmOptions extends SwarmOptions, Pick<RobotOptions, "key" | "labels" | "behaviour" | "kinds"> {
  count: number;
  /** Names are this prefix and a number; default `sim`. */
  name_prefix?: string;
  /** Robots that enroll and connect concurrently; default 32. */
  parallel?: number;
  /** Milliseconds between two health snapshots of each robot; default: none are sent. */
  health_ms?: number;
  /** Called after each robot has connected. */
  on_connected?: (connected: number) => void;
}

export interface RunningSwarm {
  swarm: Swarm;
  robots: SimulatedRobot[];
  stop(): Promise<void>;
}

/** Enrolls `count` robots with one key and connects them; they reconnect automatically until stopped. Throws if one fails. */
export async function startSwarm(options: StartSwarmOptions): Promise<RunningSwarm> {
  const { count, name_prefix = "sim", parallel = 32, health_ms, on_connected } = options;
  const swarm = new Swarm({ reconnects: true, ...options });
  const robots: SimulatedRobot[] = [];
  const connected: SimulatedRobot[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const number = (next += 1);
      const robot = await SimulatedRobot.enroll(swarm, { ...options, name: `${name_prefix}-${number}` });
      robots.push(robot);
      await robot.connect();
      connected.push(robot);
      on_connected?.(connected.length);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(parallel, count) }, work));
  } catch (error) {
    next = count;
    await swarm.stop();
    throw error;
  }
  if (health_ms !== undefined) swarm.sendHealthEvery(health_ms);
  return { swarm, robots, stop: () => swarm.stop() };
}
