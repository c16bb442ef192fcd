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
  /** If true, restarts the release even if it is already running. */
  fresh: boolean;
  signal: AbortSignal;
}

/**
 * Installs and runs one kind of release. All methods are idempotent: after a crash at any point they may be called again, and end in the
 * same state. They throw StepFailure (the deployment ends with that reason) or StepAborted.
 */
export interface Executor {
  readonly kind: string;
  /** False while the robot lacks what this kind needs, such as a container engine. Absent: always available. */
  readonly available?: boolean;
  /** Downloads and unpacks the release. The running release stays unchanged. */
  stage(app: string, release: DesiredRelease, io: StageIo): Promise<void>;
  /**
   * Downloads a staged release again if some of its files are missing or truncated. Logs a failure. Absent if this kind has no files that
   * could be damaged.
   */
  repair?(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void>;
  /** Stops the running release and starts a staged one. Downloads files again that were damaged since staging. */
  start(app: string, release: DesiredRelease, options: StartOptions): Promise<void>;
  /** Returns the id of the release that this process has started and not stopped since; null if there is none. */
  running(app: string): string | null;
  /** Monitors the started release for its verification time and returns whether it is healthy. */
  verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Returns whether exactly this release is running and healthy. */
  probe(app: string, release: DesiredRelease): Promise<ProbeResult>;
  /** Used after a rollback: returns whether the release that was just started stays up. */
  alive(app: string, signal: AbortSignal): Promise<ProbeResult>;
  /**
   * Restores what the robot ran before this release was started, and returns whether it runs again. Implemented by kinds whose releases
   * replace something that no release installed, such as the operating system. A rollback then calls this instead of `start` and `remove`.
   */
  restore?(app: string, release: DesiredRelease, signal: AbortSignal): Promise<ProbeResult>;
  /** Called when the change to this release has ended. From then on, its health is reported but causes no rollback. */
  settle?(app: string): void;
  stop(app: string): Promise<void>;
  /** Stops the app and removes it with all its data. */
  remove(app: string, signal: AbortSignal): Promise<void>;
  /** Deletes data of the app's other releases that is not in their directories. A failure is retried later. */
  prune?(app: string, keep_release_ids: readonly string[]): void;
  status(app: string): RunStatus;
  /** Returns where the app runs. Absent: releases of this kind run no processes. */
  place?(app: string): AppPlace | undefined;
  /** Returns the address at which the running app serves metrics; undefined: its manifest names none. */
  metrics_url?(app: string): string | undefined;
  /** Notifies a running workload of a changed config file, if its manifest requests that. */
  reload?(app: string): void;
  /** Called when the agent ends. Stops the workloads, or leaves them running if `keep_workloads` is true. */
  close(keep_workloads: boolean): Promise<void>;
}

/** Names of the environment variables that workloads inherit from the agent. docs/guide/deploying.md lists them. */
const INHERITED = /^(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ)$/;

/**
 * Returns the environment variables that workloads get from the agent. Variables with credentials of a proxy, a cloud or the service
 * manager are left out.
 */
export const inheritedByWorkloads = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));
