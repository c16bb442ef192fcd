import { constants } from "node:os";
import type { ResourceLimits } from "../manifest.ts";
import type { RunAs } from "../users.ts";

export interface ProgramSpec {
  app: string;
  release_id: string;
  argv: readonly string[];
  directory: string;
  env: Readonly<Record<string, string>>;
  /** Wait between SIGTERM and SIGKILL when the program is stopped. It is stored for `rf-agent stop-workloads`. */
  stop_timeout_seconds: number;
  /** Number of restarts so far, for the next agent. */
  restarts: number;
  limits: ResourceLimits;
  /** Absent: the agent's user. */
  user?: RunAs | undefined;
}

/** A program that runs independently of the agent. */
export interface HostedProgram {
  readonly pid: number;
  /**
   * Resolves once the program has ended and all its output is in the log. The value describes how it ended: `exited with 3`, `ended by
   * SIGKILL`.
   */
  readonly ended: Promise<string>;
  /** Sends a signal to the program alone. Returns false if it cannot be signaled. */
  signal(signal: NodeJS.Signals): boolean;
  /** Sends SIGTERM to the program and its children, and SIGKILL after `grace_ms`. Returns false if a process survives SIGKILL. */
  stop(grace_ms: number): Promise<boolean>;
  /** Leaves the program running and stops reading its output. The next agent adopts the program and continues to read. */
  detach(): Promise<void>;
}

/** Runs the programs of bundles so that they outlive the agent. All methods may be called again after a crash of the agent. */
export interface WorkloadHost {
  /** Starts a program. `clear` must have been called before. Throws an error that states why the program could not be started. */
  start(spec: ProgramSpec): Promise<HostedProgram>;
  /** Takes over the app's program if an earlier agent started it from this release and it still runs. */
  adopt(app: string, release_id: string): Promise<{ program: HostedProgram; restarts: number } | undefined>;
  /**
   * Ends all processes of the app that an earlier agent left running, and reads the rest of their output. `grace_ms`: the wait between SIGTERM
   * and SIGKILL; default: the stop timeout with which the program was started.
   */
  clear(app: string, grace_ms?: number): Promise<void>;
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** How a program ended, as its wrapper reports it. */
export interface ExitStatus {
  /** Exit status of a shell: 128 + N means that signal N ended the program. */
  code: number;
  /** Whether the kernel killed a process of the app because it had reached its memory limit. */
  is_out_of_memory: boolean;
}

/** Reads the status that the wrapper writes: `3`, `137 memory`. Returns undefined for any other text. */
export function parseStatus(text: string): ExitStatus | undefined {
  const [, code, reason] = /^(\d+)( memory)?\n?$/.exec(text) ?? [];
  return code === undefined ? undefined : { code: Number(code), is_out_of_memory: reason !== undefined };
}

export function describeStatus(status: ExitStatus | undefined): string {
  if (status === undefined) return "ended with an unknown status";
  const signal = SIGNALS.get(status.code - 128);
  const how = signal === undefined ? `exited with ${status.code}` : `ended by ${signal}`;
  return status.is_out_of_memory ? `${how} because it reached its memory limit` : how;
}
