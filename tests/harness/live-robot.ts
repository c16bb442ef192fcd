import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Activity, type Clock, systemClock } from "@roamfleet/clock";
import { type Agent, startAgent } from "../../packages/agent/src/agent.ts";
import { ROBOT_CONFIG_DEFAULT, type RobotConfig } from "../../packages/agent/src/config-file/robot-config.ts";
import type { AgentConfig } from "../../packages/agent/src/config.ts";
import { agentConfig, idleDeployments } from "../../packages/agent/src/testing/agent-rig.ts";
import { ROBOT_BACK_MS } from "./deadlines.ts";
import type { HarnessOrg } from "./harness-org.ts";
import type { Harness } from "./index.ts";
import { Proxy } from "./proxy.ts";

export interface LiveRobotOptions {
  /** Overrides of the robot's config file. */
  robot?: Partial<RobotConfig>;
  config?: Partial<AgentConfig>;
  /** The robot's clock (default: the system's), and the activity counter of its frames in transit. */
  clock?: Clock;
  activity?: Activity;
  /** Discards the agent's log. */
  silent?: boolean;
  /** The robot's org. Default: the default org of the harness. */
  org?: Pick<HarnessOrg, "enrollmentKey">;
}

/** A real agent in this process, connected to a plane through a proxy that can simulate a bad network. It runs no releases. */
export class LiveRobot implements AsyncDisposable {
  readonly plane: Harness;
  /** The proxy between the agent and the plane. */
  readonly line: Proxy;
  readonly lines: string[] = [];
  readonly state_directory: string;
  readonly #options: LiveRobotOptions;
  readonly #key: string;
  #agent: Agent | undefined;

  private constructor(plane: Harness, line: Proxy, state_directory: string, key: string, options: LiveRobotOptions) {
    this.plane = plane;
    this.line = line;
    this.state_directory = state_directory;
    this.#key = key;
    this.#options = options;
  }

  static async start(plane: Harness, options: LiveRobotOptions = {}): Promise<LiveRobot> {
    const key = await (options.org ?? plane).enrollmentKey();
    const line = await Proxy.start(() => plane.url);
    const state_directory = await mkdtemp(path.join(tmpdir(), "roamfleet-robot-"));
    const robot = new LiveRobot(plane, line, state_directory, key, options);
    try {
      await robot.start();
      return robot;
    } catch (error) {
      await robot[Symbol.asyncDispose]();
      throw error;
    }
  }

  get id(): string {
    if (this.#agent === undefined) throw new Error("the robot is stopped");
    return this.#agent.robot_id;
  }

  get connected(): boolean {
    return this.#agent?.connected === true;
  }

  /** Starts the agent. Resolves when it is connected. */
  async start(): Promise<void> {
    const config = agentConfig(this.line.url, this.state_directory, {
      enroll_key: this.#key,
      ...this.#options.config,
      robot: { ...ROBOT_CONFIG_DEFAULT, ros: { adapters: [] }, ...this.#options.robot },
    });
    this.#agent = await startAgent({
      config,
      clock: this.#options.clock ?? systemClock,
      ...(this.#options.activity === undefined ? {} : { activity: this.#options.activity }),
      create_deployments: idleDeployments().create,
      log: (line) => void (this.#options.silent === true || this.lines.push(line)),
    });
    await this.back();
  }

  /** Resolves when the robot is connected, for example after its link was cut. */
  back(): Promise<unknown> {
    return this.plane.until("the robot's link", () => this.connected && this.plane.holds(this.id), { deadline_ms: ROBOT_BACK_MS });
  }

  async stop(): Promise<void> {
    await this.#agent?.stop();
    this.#agent = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.line[Symbol.asyncDispose]();
    await rm(this.state_directory, { recursive: true, force: true });
  }
}
