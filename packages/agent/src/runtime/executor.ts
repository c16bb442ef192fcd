import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { AppPlace } from "../contract.ts";
import type { FailureReason } from "./failure.ts";
import type { ProbeResult } from "./probe.ts";

export type Verdict = { healthy: true } | { healthy: false; reason: FailureReason; message: string };

export interface StageIo {
  signal: AbortSignal;
  progress: (bytes_done: number, bytes_total: number) => void;
}

export interface RunStatus {
  status: "running" | "unhealthy" | "restarting" | "stopped";
  restarts: number;
}

export interface StartOptions {
  /** Restarts it even if it runs already. */
  fresh: boolean;
  /** Ends the fetching of what was damaged on the disk. */
  signal: AbortSignal;
}

/**
 * How one kind of release is brought onto the robot and run. Every method may be called again after a crash at any
 * point of its last run, and then ends in the same state. They throw StepFailure (the deployment ends with that
 * reason) or StepAborted.
 */
export interface Executor {
  readonly kind: string;
  /** False while the robot lacks what this kind needs; absent: it never does. */
  readonly available?: boolean;
  /** Fetches and unpacks beside what runs, which is not touched. */
  stage(app: string, release: DesiredRelease, io: StageIo): Promise<void>;
  /** Fetches a staged release again when files of it are missing or truncated; what fails is logged. Absent: nothing of this kind can be damaged. */
  repair?(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void>;
  /** Makes a staged release the one that runs, ending another one first. What was damaged since it was staged is fetched again. */
  start(app: string, release: DesiredRelease, options: StartOptions): Promise<void>;
  /** Id of the release that was started and not stopped since; null: none, as far as this process knows. */
  running(app: string): string | null;
  /** Watches the started release for the time of the policy. */
  verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict>;
  /** Whether this very release runs and is well now. */
  probe(app: string, release: DesiredRelease): Promise<ProbeResult>;
  /** Whether the release that was just started stays up: after a rollback. */
  alive(app: string, signal: AbortSignal): Promise<ProbeResult>;
  /** From here on its health is only shown. */
  settle(app: string): void;
  stop(app: string): Promise<void>;
  /** Takes everything of the app off the robot; it is stopped first. */
  remove(app: string): Promise<void>;
  /** Takes away what it keeps of the app's releases outside of their directories, but for these; what fails is tried again later. */
  prune?(app: string, keep_release_ids: readonly string[]): void;
  status(app: string): RunStatus;
  /** Where it runs; absent: nothing of this kind runs anywhere. */
  place?(app: string): AppPlace | undefined;
  /** Tells a running workload that a config file changed, if its manifest wants that. */
  reload(app: string): void;
  signal(app: string, signal: NodeJS.Signals): boolean;
  /** The agent ends: stops workloads, or leaves them running. */
  close(keep_workloads: boolean): Promise<void>;
}
