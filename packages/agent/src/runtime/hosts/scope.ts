import fs from "node:fs";
import type { Clock } from "@roamfleet/clock";
import type { ResourceLimits } from "../manifest.ts";
import { findProgram, runCommand, SYSTEM_PATH } from "../spawn-child.ts";

/** Path that exists if the machine was booted with systemd, so that its commands work. */
export const BOOTED_BY_SYSTEMD = "/run/systemd/system";
const SLICE = "roamfleet.slice";
/** Added to the process limit of a scope, which also counts the processes of the wrapper. */
const WRAPPER_TASKS = 16;
/** Additional time after the stop timeout, in seconds, in which systemd kills the remaining processes. */
const STOP_SLACK_SECONDS = 30;

interface ScopeSpec {
  app: string;
  limits: ResourceLimits;
  stop_timeout_seconds: number;
}

/**
 * Creates and stops transient scope units of systemd, one for each app. The cgroup of a scope contains all processes of the app and
 * enforces the limits of its manifest. A scope exists until its processes have ended, whether an agent runs or not.
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

  /** Returns undefined if this robot was not booted with systemd, or if the agent does not run as root and cannot create units. */
  static find(clock: Clock): Scopes | undefined {
    if (process.getuid?.() !== 0 || !fs.existsSync(BOOTED_BY_SYSTEMD)) return undefined;
    const [run, control] = ["systemd-run", "systemctl"].map((name) => findProgram(name, SYSTEM_PATH));
    return run === undefined || control === undefined ? undefined : new Scopes(run, control, clock);
  }

  /** Returns a command prefix that creates the app's scope. Its process then runs the command that follows. */
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

  /** Ends all processes in the app's scope. Never throws. If the scope remains, the next start fails and reports it. */
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
