import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { hash } from "node:crypto";
import { execFileSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { until } from "@roamfleet/clock/testing";
import type { AgentConfig } from "../contract.ts";
import type { DesiredApp, TargetReport } from "@roamfleet/protocol/link";
import { type RobotConfig, ROBOT_CONFIG_DEFAULT } from "../config-file/robot-config.ts";
import { ArtifactServer } from "./artifact-server.ts";
import type { TestRelease } from "./bundles.ts";
import { desiredApp } from "./deployments-rig.ts";
import type { KillDriverTask } from "./kill-driver.ts";
import { end, finalStatus, startAgent, targetReports } from "./killed-agents.ts";

export const SCRIPT = path.join(import.meta.dirname, "slot-machine.sh");

/** Returns a release of kind `os_image`. `behavior` is how the system of this image behaves. */
export function imageRelease(tag: string, behavior: "good" | "offline" | "dead" | "broken"): TestRelease {
  const bytes = Buffer.from(`${behavior} ${tag}\n`);
  const artifact_sha256 = hash("sha256", bytes);
  return {
    bytes,
    release: { id: `rel_${tag}`, tag, kind: "os_image", artifact_sha256, artifact_size: bytes.length, image: null, manifest: null },
  };
}

/** Where an agent kills itself: in its n-th process on this machine, at the n-th point between two side effects. */
export interface KillPoint {
  process: number;
  place: number;
}

/**
 * A robot with two slots, simulated by files, and an agent in a real process. A reboot ends the process; the next process runs the slot
 * that the bootloader chooses.
 */
export class SlotMachine {
  readonly server: ArtifactServer;
  readonly state: string;
  readonly slots: string;
  readonly #directory: string;
  readonly #apps: Record<string, DesiredApp> = {};
  /** The robot's own config file, with the hook. */
  readonly robot: RobotConfig;
  #generation = 0;
  #child: ChildProcess | undefined;
  #off = false;
  #processes = 0;
  #running: Promise<void> | undefined;
  /** Whether an agent killed itself at the point that was asked for. */
  was_killed = false;

  protected constructor(server: ArtifactServer, directory: string, connect_ms: number) {
    this.server = server;
    this.#directory = directory;
    this.state = path.join(directory, "state");
    this.slots = path.join(directory, "slots");
    const command = (name: string, timeout_ms = 20_000) => ({ command: ["sh", SCRIPT, this.slots, name], timeout_ms });
    const hook = {
      status: command("status"),
      install: command("install"),
      activate: command("activate"),
      confirm: command("confirm"),
      reboot: command("reboot"),
    };
    this.robot = { ...ROBOT_CONFIG_DEFAULT, os_image: { hook, connect_ms } };
  }

  static async create({ connect_ms = 500 } = {}): Promise<SlotMachine> {
    const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-slots-")));
    const machine = new SlotMachine(await ArtifactServer.start(), directory, connect_ms);
    machine.prepare();
    return machine;
  }

  protected prepare(): void {
    fs.mkdirSync(this.state);
    fs.mkdirSync(this.slots);
    const files = { booted: "A", boot_id: "first", primary: "A", "good.A": "1", "good.B": "0", "tries.A": "3", "tries.B": "0" };
    for (const [name, content] of Object.entries({ ...files, "slot.A": "good factory\n", "slot.B": "", calls: "" }))
      fs.writeFileSync(path.join(this.slots, name), content);
  }

  /** The agent's settings on this robot. */
  protected config(): Partial<AgentConfig> {
    return { robot: this.robot };
  }

  /** Starts what the agent needs, before each process of the agent. */
  protected async starting(): Promise<void> {}

  /** Kills what `starting` has started, and a command of the hook that hangs, at a power cut and at the end. */
  protected async stopping(): Promise<void> {
    const file = path.join(this.slots, "installing");
    if (!fs.existsSync(file)) return;
    const pid = Number(fs.readFileSync(file, "utf8"));
    fs.rmSync(file);
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error; // it has ended
    }
  }

  read(name: string): string {
    return fs.readFileSync(path.join(this.slots, name), "utf8").trim();
  }

  /** The commands that the hook executed, without file names. */
  get calls(): string[] {
    return this.read("calls")
      .split("\n")
      .map((line) => line.replace(/^(install) \S+/, "$1").trim());
  }

  /** Adds a release to the desired state, which the next agent process reads. */
  want(one: TestRelease, app = "os"): string {
    this.server.add(one.bytes);
    const target_id = `tgt_${one.release.tag}`;
    this.#generation += 1;
    this.#apps[app] = desiredApp(one.release, target_id, 1, 0.1);
    return target_id;
  }

  /** Desires that the app is removed. */
  drop(target_id: string, app = "os"): void {
    this.#generation += 1;
    this.#apps[app] = desiredApp(null, target_id, 1, 0.1);
  }

  /** Switches the robot on. Its agent is started again whenever it ends, until `off`. */
  on(kill?: KillPoint): void {
    this.#off = false;
    this.#processes = 0;
    this.#running = this.#run(kill);
  }

  async #run(kill: KillPoint | undefined): Promise<void> {
    while (!this.#off) {
      this.#processes += 1;
      await this.starting();
      const child = startAgent(this.#task(kill?.process === this.#processes ? kill.place : 0));
      this.#child = child;
      await once(child, "exit");
      if (!this.#off && child.signalCode === "SIGKILL") this.was_killed = true;
    }
  }

  #task(kill_at: number): KillDriverTask {
    return {
      state: this.state,
      origin: this.server.origin,
      desired: { type: "desired", generation: this.#generation, apps: this.#apps, configs: {} },
      kill_at,
      places: "os_image.",
      config: this.config(),
      offline_file: path.join(this.slots, "offline"),
    };
  }

  async off(): Promise<void> {
    this.#off = true;
    if (this.#child !== undefined) await end(this.#child, "SIGTERM");
    await this.#running;
  }

  /** Kills the agent, which is started again. */
  async killAgent(): Promise<void> {
    if (this.#child !== undefined) await end(this.#child, "SIGKILL");
  }

  /** Cuts the power and switches the robot on again, with the slot that its bootloader chooses. */
  async cutPower(): Promise<void> {
    this.#off = true;
    await this.killAgent();
    await this.#running;
    await this.stopping();
    execFileSync("sh", [SCRIPT, this.slots, "boot"]);
    this.on();
  }

  /** Waits for the end of a target, and returns its last report. */
  async ended(target_id: string): Promise<TargetReport> {
    await until(`the end of ${target_id}`, () => finalStatus(this.state, target_id));
    return targetReports(this.state, target_id).at(-1)!;
  }

  statuses(target_id: string): string[] {
    return [...new Set(targetReports(this.state, target_id).map(({ status }) => status))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.off();
    await this.stopping();
    await this.server[Symbol.asyncDispose]();
    fs.rmSync(this.#directory, { recursive: true, force: true });
  }
}
