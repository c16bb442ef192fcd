import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { AgentConfig } from "../config.ts";
import type { AppStatus } from "../contract.ts";
import { statePaths } from "../runtime/paths.ts";
import { thisMachine, UpdateLock } from "../safety/update-lock.ts";
import { RobotPermission } from "../safety/permission.ts";
import { EventRing } from "./events.ts";
import type { AgentView } from "./routes.ts";
import { LocalApi } from "./server.ts";

const RUN_BYTES = 6;

interface LocalInterfaceOptions {
  config: AgentConfig;
  clock: Clock;
  log: Logger;
}

/**
 * The agent's interface to the other software on the robot. It serves the local API and decides whether the robot may be
 * changed.
 */
export class LocalInterface {
  readonly permission: RobotPermission;
  readonly #options: LocalInterfaceOptions;
  readonly #ring: EventRing;
  readonly #published = new Map<string, string>();
  #view: AgentView | undefined;
  #api: LocalApi | undefined;

  constructor(options: LocalInterfaceOptions) {
    const { config, clock, log } = options;
    const { state_directory, safe_to_update, workload_environment, system_root } = config;
    this.#options = options;
    const machine = thisMachine(system_root);
    this.permission = new RobotPermission({
      lock: new UpdateLock({ state_directory, clock, machine }),
      gate: safe_to_update,
      gate_context: { env: workload_environment, directory: state_directory },
      clock,
      log,
    });
    this.permission.on_event = ({ type, ...data }) => this.#ring.add(type, data);
    this.#ring = new EventRing(Buffer.from(clock.randomBytes(RUN_BYTES)).toString("hex"));
  }

  /** Opens the socket if the config names one. */
  async start(view: Omit<AgentView, "permission" | "paths">): Promise<void> {
    const { config, clock, log } = this.#options;
    const { state_directory, local_api } = config;
    this.permission.start();
    this.#view = { ...view, permission: this.permission, paths: statePaths(state_directory) };
    if (local_api === undefined) return;
    this.#api = new LocalApi({ ...local_api, state_directory, view: this.#view, ring: this.#ring, clock, log });
    await this.#api.start();
  }

  get readers(): number {
    return this.#ring.listeners;
  }

  async stop(): Promise<void> {
    this.permission.stop();
    await this.#api?.stop();
  }

  /** Publishes an event for each app whose status has changed. */
  readonly appChanged = (): void => {
    for (const status of this.#view?.apps() ?? []) this.#publishApp(status);
  };

  #publishApp(status: AppStatus): void {
    const text = JSON.stringify(status);
    if (this.#published.get(status.app) === text) return;
    this.#published.set(status.app, text);
    this.#ring.add("app.changed", status);
  }

  readonly configChanged = (namespace: string): void => {
    const { state_directory } = this.#options.config;
    let sha256: string | null = null;
    try {
      sha256 = hash("sha256", readFileSync(statePaths(state_directory).config(namespace)));
    } catch {
      // The file was removed in the meantime: publish the event without a hash.
    }
    this.#ring.add("config.changed", { namespace, sha256 });
  };

  readonly connectionChanged = (connected: boolean, reason?: string): void => {
    if (connected) this.#ring.add("connection.opened", {});
    else this.#ring.add("connection.closed", { reason: reason ?? "" });
  };
}
