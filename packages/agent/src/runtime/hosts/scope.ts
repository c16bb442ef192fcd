import fs from "node:fs";
import type { Clock } from "@roamfleet/clock";
import type { ResourceLimits } from "../manifest.ts";
import { findProgram, runCommand, SYSTEM_PATH } from "../spawn-child.ts";

/** Path that exists if the machine was booted with systemd, so that its commands work. */
export const BOOTED_BY_SYSTEMD = "/run/systemd/system";
const SLICE = "roamfleet.slice";
/** Processes and threads of the wrapper, which count toward the limit of the scope. */
const WRAPPER_TASKS = 16;
/** Time in seconds beyond the stop timeout until systemd has killed a scope. */
const STOP_SLACK_SECONDS = 30;

interface ScopeSpec {
  app: string;
  limits: ResourceLimits;
  stop_timeout_seconds: number;
}

/**
 * Transient scope units of systemd, one for each app. A scope is a cgroup: it holds all processes of the app, enforces the limits of its
 * manifest, and outlives the agent.
 */
export class Scopes {
  readonly #run: string;
  readonly #control: string;
  readonly #clock: Clock;

  private constructor(run: string, control: string, clock: Clock) {
    this.#run = run;
    this.#control = control;
    this.#clock = clock;
  }

  /** Returns the scopes of this robot; undefined if systemd did not boot it, or the agent may not create units because it is not root. */
  static find(clock: Clock): Scopes | undefined {
    if (process.getuid?.() !== 0 || !fs.existsSync(BOOTED_BY_SYSTEMD)) return undefined;
    const [run, control] = ["systemd-run", "systemctl"].map((name) => findProgram(name, SYSTEM_PATH));
    return run === undefined || control === undefined ? undefined : new Scopes(run, control, clock);
  }

  /** Returns the command that creates the app's scope and then replaces itself by the command that follows it. */
  command({ app, limits, stop_timeout_seconds }: ScopeSpec): string[] {
    const { memory_bytes, cpus, pids } = limits;
    const properties = [
      `TimeoutStopSec=${stop_timeout_seconds}`,
      ...(memory_bytes === null ? [] : [`MemoryMax=${memory_bytes}`]),
      ...(cpus === null ? [] : [`CPUQuota=${Math.max(1, Math.round(cpus * 100))}%`]),
      ...(pids === null ? [] : [`TasksMax=${pids + WRAPPER_TASKS}`]),
    ];
    const about = [
      "--scope",
      "--quiet",
      "--collect",
      `--unit=${scopeName(app)}`,
      `--slice=${SLICE}`,
      "--description=App of a Roamfleet robot",
    ];
    return [this.#run, ...about, ...properties.map((property) => `--property=${property}`), "--"];
  }

  /** Ends all processes that are left in the app's scope. Never throws: starting the next program reports a scope that remains. */
  async stop(app: string, stop_timeout_seconds: number): Promise<void> {
    const timeout_ms = (stop_timeout_seconds + STOP_SLACK_SECONDS) * 1_000;
    await runCommand({ argv: [this.#control, "stop", "--quiet", scopeName(app)], env: {}, timeout_ms, clock: this.#clock });
  }
}

/** Returns the name of an app's unit, such as `roamfleet-app-main.scope`. Other characters are escaped like in `systemd-escape`. */
export const scopeName = (app: string): string =>
  `roamfleet-app-${[...Buffer.from(app)].map((byte) => escaped(String.fromCharCode(byte), byte)).join("")}.scope`;

const escaped = (character: string, byte: number): string =>
  /[A-Za-z0-9:_.]/.test(character) ? character : String.raw`\x${byte.toString(16).padStart(2, "0")}`;
