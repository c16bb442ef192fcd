/** Interfaces between the parts of the agent, for the most part those of the deployments part. */
import type { Clock } from "@roamfleet/clock";
import type { Desired, LogLevel, Progress, ReportBody } from "@roamfleet/protocol/link";
import type Docker from "dockerode";
import type { Logger } from "pino";
import type { AgentConfig } from "./config.ts";
import type { Phase } from "./deployments/state.ts";
import type { Permission } from "./safety/permission.ts";
import type { Guard } from "./signing/admit-release.ts";

export type { AgentConfig, Clock, Logger };

export interface Reporter {
  /**
   * Appends to the outbox and fsyncs before it returns. While the disk is full or broken, reports are kept in bounded memory. They are
   * still sent, and are written once the disk accepts writes again. Throws only if that memory is full, too.
   */
  report(body: ReportBody): void;
  /** Not durable: dropped when the link is down. */
  progress(p: Omit<Progress, "type">): void;
}

export interface LogRecord {
  level: LogLevel;
  /** Unit, app or ROS node; 1 to 200 characters. */
  source: string;
  /** Truncated to the protocol's limit; may contain newlines and control characters. */
  message: string;
  fields?: Record<string, unknown>;
  /** When it happened; absent: now. */
  at?: Date;
}

export interface LogSink {
  /** Never throws and never waits: records that do not fit are counted and reported as a gap record. */
  write(record: LogRecord): void;
}

interface FetchHeaders {
  /** Header names are case-insensitive. Returns null for an absent header. */
  get(name: string): string | null;
}

export interface FetchAnswer {
  status: number;
  headers: FetchHeaders;
  /** Throws if the connection breaks or stalls, and never ends early without an error. Abort the signal to stop reading. */
  body: AsyncIterable<Uint8Array>;
}

export interface Fetcher {
  /**
   * Sends a signed GET to the server (RobotSignature header). `path` starts with `/`. `range_start`: offset of the first byte to return, if
   * the ETag still equals `if_range`; otherwise the whole body is returned. Throws if the server is unreachable.
   */
  get(path: string, options: { range_start?: number; if_range?: string; signal: AbortSignal }): Promise<FetchAnswer>;
}

export interface WorkloadStatus {
  app: string;
  kind: string;
  status: string;
  restarts: number;
  release_tag: string | null;
}

export interface AppStatus {
  app: string;
  /** The release that runs, or that runs again after a restart. */
  current: ReleaseName | null;
  /** The release that the server wants; null: none, or unknown. */
  desired: ReleaseName | null;
  /** Phase of the change in progress; null: none. */
  phase: Phase | null;
  /** Why the robot blocks the update; null: it does not. */
  held: { by: "lock" | "gate"; why: string } | null;
  /** Status of the app's workload; null: none runs. */
  workload: { status: string; restarts: number } | null;
}

export interface ReleaseName {
  id: string;
  tag: string;
  kind: string;
}

export interface EngineCalls {
  /**
   * Calls `work` with the container engine. `what` names the work in messages. `wait_ms` limits the wait for an engine that does not
   * answer.
   */
  use<T>(
    options: { what: string; signal: AbortSignal; wait_ms?: number },
    work: (docker: Docker, signal: AbortSignal) => Promise<T>,
  ): Promise<T>;
}

/** Where an app runs: as a process of the robot, or in a container. */
export type AppPlace =
  | { directory: string; env: Readonly<Record<string, string>> }
  | { container: { engine: EngineCalls; container_id: string } };

export interface Deployments {
  /** Sets the newest desired state, which the link has already stored on disk. */
  desired(desired: Desired): void;
  /** Receives the parts of each desired state that must not be written to disk: logins for registries. */
  learn(desired: Desired): void;
  workloads(): WorkloadStatus[];
  /** Returns the status of every app, for the robot's own software. */
  apps(): AppStatus[];
  /** Returns where an app runs, for a shell in the same place; undefined if it does not run. */
  place(app: string): AppPlace | undefined;
  /** Reports every app and config file; called after each connect. */
  announce(): void;
  readonly kinds: string[];
  /** Resumes from the journal and restarts workloads; works offline. */
  start(): Promise<void>;
  /** Interrupts the work in progress where the journal can resume it. Stops the workloads unless the config keeps them. */
  stop(): Promise<void>;
}

export interface DeploymentsOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
  reporter: Reporter;
  logs: LogSink;
  fetcher: Fetcher;
  /** The desired state as last stored on disk; undefined before the first one. */
  desired: Desired | undefined;
  config: AgentConfig;
  /** Checks by its signature whether a release may be installed; absent: every release may. */
  guard?: Guard;
  /** Decides whether the robot may be changed now; absent: it always may be. */
  permission?: Permission;
  /** Milliseconds since 1970 by the server's clock, as precisely as the robot knows it; absent: by the robot's clock. */
  server_time?: () => number;
  on_app?: () => void;
  on_config?: (namespace: string) => void;
}

export type CreateDeployments = (options: DeploymentsOptions) => Deployments;
