/** The interfaces between the parts of the agent. Most belong to the part that runs deployments. */
import type { Clock } from "@roamfleet/clock";
import type { Desired, LogLevel, Progress, ReportBody } from "@roamfleet/protocol/link";
import type Docker from "dockerode";
import type { Logger } from "pino";
import type { AgentConfig } from "./config.ts";
import type { Phase } from "./deployments/state.ts";
import type { Permission } from "./safety/permission.ts";
import type { SelfUpdate } from "./self-update/launched.ts";
import type { Guard } from "./signing/admit-release.ts";

export type { AgentConfig, Clock, Logger };

export interface Reporter {
  /**
   * Appends to the outbox and fsyncs before it returns. While the disk is full or broken, reports are kept in bounded memory. They are
   * still sent, and are written once the disk accepts writes again. Throws only if that memory is full, too.
   */
  report(body: ReportBody): void;
  /** Sends the progress of a download. Progress is not durable: it is dropped while the link is down. */
  progress(p: Omit<Progress, "type">): void;
}

export interface LogRecord {
  level: LogLevel;
  /** Name of the systemd unit, app or ROS node that wrote the record; 1 to 200 characters. */
  source: string;
  /** Text of the record. It is truncated to the protocol's limit, and may contain newlines and control characters. */
  message: string;
  fields?: Record<string, unknown>;
  /** Time of the record; absent: now. */
  at?: Date;
}

export interface LogSink {
  /**
   * Writes a record. Never throws and never blocks: if there is no room, the record is dropped, counted and later reported as part of a
   * gap.
   */
  write(record: LogRecord): void;
}

/** A log sink for the output of programs, which waits in files until the agent reads it. */
export interface OutputSink extends LogSink {
  /** Returns whether the source may write a burst now. A reader of files waits until then. Absent: always. */
  hasRoom?: (source: string) => boolean;
  /** Returns the number that the next record gets. */
  next_seq?: () => number;
  /** The highest number of the records that earlier agents stored. */
  stored_seq?: number;
}

interface FetchHeaders {
  /** Returns the value of a header, or null if it is absent. Header names are case-insensitive. */
  get(name: string): string | null;
}

export interface FetchAnswer {
  status: number;
  headers: FetchHeaders;
  /**
   * The response body. Iterating throws if the connection breaks or stalls; a truncated body never ends without an error. Abort the signal
   * to stop reading.
   */
  body: AsyncIterable<Uint8Array>;
}

export interface Fetcher {
  /**
   * Sends a signed GET to the server (RobotSignature header). `path` starts with `/`. With `range_start`, the response begins at that
   * offset if the ETag still equals `if_range`; otherwise it contains the whole body. Throws if the server is unreachable.
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
  /** The release that the server wants on this robot; null: none, or not known yet. */
  desired: ReleaseName | null;
  /** Phase of the change in progress; null: no change is in progress. */
  phase: Phase | null;
  /** Why the robot delays the update; null: it does not delay one. */
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
   * Calls `work` with a client of the container engine. `what` names the operation in error messages. `wait_ms` is the maximum wait for an
   * engine that does not answer.
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

/** Where a running app serves metrics in the text format of Prometheus. */
export interface ScrapeTarget {
  app: string;
  url: string;
}

export interface StopOptions {
  /** True if the launcher immediately starts another agent, which then supervises the workloads. */
  is_replaced: boolean;
}

export interface Deployments {
  /** Sets the newest desired state. The link has already stored it on disk. */
  desired(desired: Desired): void;
  /** Receives the registry logins of a desired state. They are passed separately, since they must never be written to disk. */
  learn(desired: Desired): void;
  workloads(): WorkloadStatus[];
  /** Returns the status of every app, for the robot's own software. */
  apps(): AppStatus[];
  /** Returns where an app runs, for a shell in the same place; undefined if it does not run. */
  place(app: string): AppPlace | undefined;
  /** Returns where running apps serve metrics. Absent: no app does. */
  scrape_targets?(): ScrapeTarget[];
  /** Reports the state of every app and config file to the server; called after each connect. */
  announce(): void;
  readonly kinds: string[];
  /** Resumes unfinished work from the journal and restarts the workloads. Works offline. */
  start(): Promise<void>;
  /**
   * Stops the work in progress at a point where the journal can resume it. Also stops the workloads, unless the config keeps them running or
   * another version of the agent continues.
   */
  stop(options?: StopOptions): Promise<void>;
}

export interface DeploymentsOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
  reporter: Reporter;
  logs: OutputSink;
  fetcher: Fetcher;
  /** The desired state as last stored on disk; undefined before the first one. */
  desired: Desired | undefined;
  config: AgentConfig;
  /** Checks a release's signature before it is installed. Absent: every release may be installed. */
  guard?: Guard;
  /** Decides whether the robot may be changed now; absent: it always may be. */
  permission?: Permission;
  /** Returns the server's time as the robot estimates it, in milliseconds since 1970. Absent: the robot's clock is used. */
  server_time?: () => number;
  /** Returns whether the agent is connected to its server. Absent: it counts as connected. */
  connected?: () => boolean;
  /** How the agent installs other versions of itself. Absent: the launcher did not start this agent, so it cannot install any. */
  self_update?: SelfUpdate;
  on_app?: () => void;
  on_config?: (namespace: string) => void;
}

export type CreateDeployments = (options: DeploymentsOptions) => Deployments;
