import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import { type Clock, systemClock } from "@roamfleet/clock";
import type { Desired, DesiredApp, DesiredConfig, DesiredRelease, Progress, ReportBody, TargetReport } from "@roamfleet/protocol/link";
import { type Logger, pino } from "pino";
import { ROBOT_CONFIG_DEFAULT } from "../config-file/robot-config.ts";
import type { AgentConfig, AppStatus, Deployments, DeploymentsOptions, LogRecord } from "../contract.ts";
import { createDeployments, type DeploymentsTuning } from "../deployments/index.ts";
import { LocalInterface } from "../local/local-interface.ts";
import type { Timing } from "../runtime/limits.ts";
import { processesWithEnvironment, signalGroup } from "../runtime/processes.ts";
import { ReleaseGuard, type ReleaseGuardOptions } from "../signing/release-guard.ts";
import { ArtifactServer, plainFetcher } from "./artifact-server.ts";
import type { TestRelease } from "./bundles.ts";

/** Short waits for tests. Timeouts for other programs stay those of a robot, since a busy machine needs them. */
export const QUICK: Partial<Timing> = {
  retry_first_ms: 5,
  retry_last_ms: 50,
  download_tries: 5,
  restart_first_ms: 50,
  restart_last_ms: 500,
  probe_interval_ms: 100,
  probe_idle_interval_ms: 100,
  rollback_alive_ms: 150,
  drift_interval_ms: 50,
  engine_check_ms: 200,
};

export const VERIFY_SECONDS = 0.5;

export interface RigOptions {
  config?: Partial<AgentConfig>;
  tuning?: DeploymentsTuning;
  /** Clock of the agent; default: the system clock. */
  clock?: Clock;
  /** If set, releases are admitted by the signing keys on the robot's disk. */
  guarded?: Guarded;
  /** Called before the agent starts, to prepare its state directory. */
  before_boot?: (state_directory: string) => void;
}

export function testConfig(state_directory: string, more: Partial<AgentConfig> = {}): AgentConfig {
  return {
    server: "http://127.0.0.1:1",
    state_directory,
    labels: {},
    stop_workloads: true,
    allow_insecure_http: false,
    trust_on_first_use: false,
    log_level: "silent",
    log_spool_bytes_max: 1_000_000,
    file_directories: [],
    mount_directories: [],
    tpm: "off",
    allow_devices: true,
    allow_host_network: true,
    container_sockets: [],
    robot: ROBOT_CONFIG_DEFAULT,
    workload_environment: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    system_root: "/",
    ...more,
  };
}

/** The robot's identity for the check of signed releases. */
export type Guarded = Pick<ReleaseGuardOptions, "org_id" | "robot_id" | "labels">;

/** Runs the deployments part of an agent in a temporary directory, with a real artifact server. */
export class DeploymentsRig {
  readonly server: ArtifactServer;
  readonly state: string;
  readonly reports: ReportBody[] = [];
  readonly progress: Omit<Progress, "type">[] = [];
  readonly logs: LogRecord[] = [];
  deployments!: Deployments;
  /** The local interface; defined if the config names a socket or a safe-to-update check. */
  local_interface: LocalInterface | undefined;
  #desired: Desired = { type: "desired", generation: 0, apps: {}, configs: {} };
  readonly #config: Partial<AgentConfig>;
  readonly #tuning: DeploymentsTuning;
  readonly #clock: Clock;
  readonly #guarded: Guarded | undefined;

  private constructor(server: ArtifactServer, state: string, { config = {}, tuning = {}, clock = systemClock, guarded }: RigOptions) {
    this.server = server;
    this.state = state;
    this.#config = config;
    this.#tuning = tuning;
    this.#clock = clock;
    this.#guarded = guarded;
  }

  static async start(options: RigOptions = {}): Promise<DeploymentsRig> {
    const state = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-deployments-")));
    const rig = new DeploymentsRig(await ArtifactServer.start(), state, options);
    options.before_boot?.(state);
    await rig.boot();
    return rig;
  }

  /** Starts an agent on the existing state directory. */
  async boot(config: Partial<AgentConfig> = this.#config): Promise<void> {
    const log = pino({ level: process.env["RIG_LOG"] ?? "silent" });
    const fetcher = plainFetcher(this.server.origin);
    const guarded = this.#guarded;
    const server_time = () => 0;
    this.deployments = createDeployments(
      {
        state_directory: this.state,
        clock: this.#clock,
        log,
        desired: this.#desired.generation === 0 ? undefined : this.#desired,
        reporter: { report: (body) => void this.reports.push(body), progress: (one) => void this.progress.push(one) },
        logs: { write: (record) => void this.logs.push(record) },
        fetcher,
        config: testConfig(this.state, config),
        ...this.#localInterface(testConfig(this.state, config), log),
        ...(guarded && {
          guard: new ReleaseGuard({ state_directory: this.state, ...guarded, clock: systemClock, server_time, fetcher, log }),
        }),
      },
      { ...this.#tuning, timing: { ...QUICK, ...this.#tuning.timing } },
    );
    await this.deployments.start();
    const apps = (): AppStatus[] => this.deployments.apps();
    await this.local_interface?.start({ robot_id: "rob_1", name: "arm", agent_version: "test", key: "file", connected: () => true, apps });
  }

  #localInterface(config: AgentConfig, log: Logger): Pick<DeploymentsOptions, "permission" | "on_app" | "on_config"> {
    if (config.local_api === undefined && config.safe_to_update === undefined) return {};
    const side = new LocalInterface({ config, clock: systemClock, log });
    this.local_interface = side;
    return { permission: side.permission, on_app: side.appChanged, on_config: side.configChanged };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.local_interface?.stop();
    await this.deployments.stop();
    for (const { group } of processesWithEnvironment({ ROAMFLEET_CONFIG_DIR: path.join(this.state, "configs") }))
      signalGroup(group, "SIGKILL");
    await this.server[Symbol.asyncDispose]();
    fs.rmSync(this.state, { recursive: true, force: true });
  }

  want(apps: Record<string, DesiredApp>, configs: Record<string, DesiredConfig> = {}): void {
    this.#desired = { type: "desired", generation: this.#desired.generation + 1, apps, configs };
    this.deployments.desired(this.#desired);
  }

  /** Adds a release of one app to the desired state and returns the target's id. */
  deploy(one: TestRelease, options: { app?: string; target?: string; attempt?: number; verify_seconds?: number } = {}): string {
    const { app = "main", target = `tgt_${one.release.tag}`, attempt = 1, verify_seconds = VERIFY_SECONDS } = options;
    this.server.add(one.bytes);
    this.want({ ...this.#desired.apps, [app]: desiredApp(one.release, target, attempt, verify_seconds) }, this.#desired.configs);
    return target;
  }

  targetReports(target_id: string): TargetReport[] {
    return this.reports.filter((body): body is TargetReport => body.kind === "target" && body.target_id === target_id);
  }

  statuses(target_id: string): string[] {
    return this.targetReports(target_id).map(({ status }) => status);
  }

  ended(target_id: string): Promise<TargetReport> {
    return until(`the end of ${target_id}`, () =>
      this.targetReports(target_id).find(({ status }) => ["applied", "rolled_back", "failed", "cancelled"].includes(status)),
    );
  }

  /**
   * Returns the pids of an app's group leaders, found by their environment. With `tag`, returns only those of
   * one release.
   */
  processes(app: string, tag?: string): number[] {
    const variables = {
      ROAMFLEET_APP: app,
      ROAMFLEET_CONFIG_DIR: path.join(this.state, "configs"),
      ...(tag === undefined ? {} : { ROAMFLEET_RELEASE: tag }),
    };
    return processesWithEnvironment(variables)
      .filter(({ pid, group }) => pid === group)
      .map(({ pid }) => pid);
  }

  current(app = "main"): string {
    return path.basename(fs.readlinkSync(path.join(this.state, "apps", app, "current")));
  }
}

export function desiredApp(
  release: DesiredRelease | null,
  target_id: string | null,
  attempt = 1,
  verify_seconds = VERIFY_SECONDS,
): DesiredApp {
  return { release, target_id, deployment_id: target_id === null ? null : `dep_of_${target_id}`, attempt, policy: { verify_seconds } };
}
