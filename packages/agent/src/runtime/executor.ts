import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { AppPlace } from "../contract.ts";
import type { ProbeResult, Verdict } from "./health-check.ts";

export interface StageIo {
  signal: AbortSignal;
  progress: (bytes_done: number, bytes_total: number) => void;
}

export interface RunStatus {
  status: "running" | "unhealthy" | "restarting" | "stopped";
  restarts: number;
}

export interface StartOptions {
  /** Restarts the release even if it runs already. */
  fresh: boolean;
  signal: AbortSignal;
}

/**
 * Installs and runs one kind of release. Every method may be called again after a crash at any point of its last run, and then ends in the same
 * state. Methods throw StepFailure (the deployment ends with that reason) or StepAborted.
 */
export interface Executor {
  readonly kind: string;
  /** False while the robot lacks what this kind needs; absent: always available. */
  readonly available?: boolean;
  /** Downloads and unpacks the release without changing the running one. */
  stage(app: string, release: DesiredRelease, io: StageIo): Promise<void>;
  /**
   * Downloads a staged release again if files of it are missing or truncated; a failure is logged. Absent: this kind has no files that could be
   * damaged.
   */
  repair?(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void>;
  /** Starts a staged release after stopping another one. Files that were damaged since staging are downloaded again. */
  start(app: string, release: DesiredRelease, options: StartOptions): Promise<void>;
  /** Returns the id of the release that this process has started and not stopped since; null if there is none. */
  running(app: string): string | null;
  /** Monitors the started release for the policy's verification time. */
  verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Whether exactly this release runs and is healthy now. */
  probe(app: string, release: DesiredRelease): Promise<ProbeResult>;
  /** Returns whether the release that was just started stays up. Used after a rollback. */
  alive(app: string, signal: AbortSignal): Promise<ProbeResult>;
  /** Called when the work on the release has ended: from here on its health is only reported. */
  settle?(app: string): void;
  stop(app: string): Promise<void>;
  /** Removes the app with all its data; it is stopped first. */
  remove(app: string): Promise<void>;
  /** Deletes data of the app's other releases that is outside of their directories; a failure is retried later. */
  prune?(app: string, keep_release_ids: readonly string[]): void;
  status(app: string): RunStatus;
  /** Where the app runs; absent: this kind runs no processes. */
  place?(app: string): AppPlace | undefined;
  /** Notifies a running workload of a changed config file, if its manifest requests that. */
  reload?(app: string): void;
  /** Called when the agent ends: stops workloads, or leaves them running. */
  close(keep_workloads: boolean): Promise<void>;
}

/** The environment variables that workloads inherit from the agent; docs/guide/deploying.md lists them. */
const INHERITED = /^(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ)$/;

/** Returns the part of the children's environment that workloads get: no credentials of a proxy, a cloud or the service manager. */
export const inheritedByWorkloads = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));
