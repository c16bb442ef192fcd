/** The seams inside the agent: what the deployments part is given, and what it gives back. */
import type { Clock } from "@roamfleet/clock";
import type { Desired, LogLevel, Progress, ReportBody } from "@roamfleet/protocol/link";
import type Docker from "dockerode";
import type { Logger } from "pino";
import type { AgentConfig } from "./config.ts";
import type { Phase } from "./deployments/state.ts";
import type { Permission } from "./safety/permission.ts";
import type { Guard } from "./signing/guard.ts";

export type { AgentConfig, Clock, Logger };

export interface Reporter {
  /**
   * Appends to the outbox and fsyncs before it returns. On a full or broken disk the report is kept in bounded memory,
   * sent all the same and written when the disk has room again; throws only when that is full too.
   */
  report(body: ReportBody): void;
  /** Not durable: dropped when the link is down. */
  progress(p: Omit<Progress, "type">): void;
}

export interface LogRecord {
  level: LogLevel;
  /** Unit, app or ROS node; 1 to 200 characters. */
  source: string;
  /** Cut to the protocol's bound; may hold newlines and control characters. */
  message: string;
  fields?: Record<string, unknown>;
  /** When it happened; now, if absent. */
  at?: Date;
}

export interface LogSink {
  /** Never throws and never waits: what does not fit is counted and told as a gap record. */
  write(record: LogRecord): void;
}

export interface FetchHeaders {
  /** Case-insensitive; null when absent. */
  get(name: string): string | null;
}

export interface FetchAnswer {
  status: number;
  headers: FetchHeaders;
  /** Throws when the connection breaks or stalls; ends early only by throwing. Abort the signal to give up reading. */
  body: AsyncIterable<Uint8Array>;
}

export interface Fetcher {
  /** Signed GET to the server (RobotSignature header); `path` starts with `/`; a range only of what has the ETag `if_range`, else the whole. Throws when the server cannot be reached. */
  get(path: string, options: { range_start?: number; if_range?: string; signal: AbortSignal }): Promise<FetchAnswer>;
}

export interface WorkloadStatus {
  app: string;
  kind: string;
  status: string;
  restarts: number;
  release_tag: string | null;
}

/** One app as the robot's own software sees it. */
export interface AppStatus {
  app: string;
  /** What runs, or is to run again after a restart. */
  current: ReleaseName | null;
  /** What the server wants; null: nothing, or it has never said. */
  desired: ReleaseName | null;
  /** What is being done to it; null: nothing. */
  phase: Phase | null;
  /** Why the robot holds the update back; null: it does not. */
  held: { by: "lock" | "gate"; why: string } | null;
  /** Of its workload; null: none runs. */
  workload: { status: string; restarts: number } | null;
}

export interface ReleaseName {
  id: string;
  tag: string;
  kind: string;
}

/** The robot's container engine, for one call after the other. */
export interface EngineCalls {
  /** Runs calls of the engine. `what`: for messages; `wait_ms`: how long an engine that is away is waited for. */
  use<T>(
    options: { what: string; signal: AbortSignal; wait_ms?: number },
    work: (docker: Docker, signal: AbortSignal) => Promise<T>,
  ): Promise<T>;
}

/** Where an app runs: among the robot's own programs, or in a container. */
export type AppPlace =
  | { directory: string; env: Readonly<Record<string, string>> }
  | { container: { engine: EngineCalls; container_id: string } };

export interface Deployments {
  /** The newest desired state, already stored on disk by the link. */
  desired(desired: Desired): void;
  /** What is told with each desired state and never stored: logins for registries. */
  learn?(desired: Desired): void;
  workloads(): WorkloadStatus[];
  /** For the robot's own software; absent on robots that have none. */
  apps?(): AppStatus[];
  /** Where an app runs that is somewhere: for a shell beside it. */
  place?(app: string): AppPlace | undefined;
  /** Reports every app and config file; called after each connect. */
  announce(): void;
  /** Release kinds that this agent can install. */
  readonly kinds: string[];
  /** Resumes from the journal and restarts workloads; works offline. */
  start(): Promise<void>;
  /** Ends the work in progress where the journal can resume it, and stops the workloads unless the config keeps them. */
  stop(): Promise<void>;
}

export interface DeploymentsOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
  reporter: Reporter;
  logs: LogSink;
  fetcher: Fetcher;
  /** As last stored; undefined before the first. */
  desired: Desired | undefined;
  config: AgentConfig;
  /** Says by its signature whether a release may be installed; absent: any may. */
  guard?: Guard;
  /** Whether the robot may be changed now; absent: always. */
  permission?: Permission;
  /** Milliseconds since 1970 by the server's clock, as well as the robot knows it; absent: by its own. */
  server_time?: () => number;
  /** The status of some app is another one. */
  on_app?: () => void;
  /** The file of this namespace is another one. */
  on_config?: (namespace: string) => void;
}

export type CreateDeployments = (options: DeploymentsOptions) => Deployments;
