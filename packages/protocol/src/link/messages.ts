import { type Static, Type } from "typebox";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { LOG_BATCH_RECORDS_MAX, LOG_LEVELS, LOG_MESSAGE_CHARACTERS_MAX } from "./limits.ts";

/**
 * Control messages: JSON on channel 0 (`logs` on the log channel). The server validates messages from robots against these schemas; the
 * agent uses only the types, to avoid loading a schema library.
 */
/** Maximum values that programs on a robot may report in addition to the agent's. */
const METRICS_MAX = 1_000;
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Count = Type.Integer({ minimum: 0 });
/** Integers that the database stores in 32 bits. */
const SmallCount = Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 });
const Text = Type.String({ maxLength: 4_000 });

export const Platform = Shape({
  os: Maybe(Type.String({ maxLength: 200 })),
  arch: Maybe(Type.String({ maxLength: 200 })),
  hostname: Maybe(Type.String({ maxLength: 255 })),
  kernel: Maybe(Type.String({ maxLength: 200 })),
});
export type Platform = Static<typeof Platform>;

const GENERATION_MAX = 2 ** 52;

/** First message of a robot, in response to `challenge`. */
export const Hello = Type.Object(
  {
    type: Type.Literal("hello"),
    protocols: Type.Array(Type.Integer(), { minItems: 1, maxItems: 16 }),
    robot_id: Name,
    /** base64 Ed25519 signature of `linkChallengeText` */
    signature: Type.String({ maxLength: 200 }),
    /** The TLS channel as seen by the robot (`channelBinding`); absent: the connection has no TLS. */
    channel: Maybe(Type.String({ maxLength: 100 })),
    boot_id: Name,
    /** Created at each start of the agent and never stored: two concurrent values mean two machines or two processes. */
    run_id: Name,
    /** Identifies the outbox on the robot's disk. Sequence numbers count within one outbox. */
    outbox_id: Name,
    agent_version: Name,
    platform: Platform,
    /** Release kinds that this agent can install. */
    kinds: Type.Array(Name, { maxItems: 64 }),
    /** Streams that this agent can open. */
    streams: Type.Array(Name, { maxItems: 64 }),
    /** The supported LINK_FEATURES; absent: none. */
    features: Maybe(Type.Array(Name, { maxItems: 64 })),
    /** Generation of the desired state stored on the robot. The limit ensures that the server can increment it as an exact number. */
    generation: Type.Integer({ minimum: 0, maximum: GENERATION_MAX }),
  },
  // Unknown fields are allowed only in this message: the robot may be newer than the server.
  { additionalProperties: true },
);
export type Hello = Static<typeof Hello>;

export const TARGET_STATUSES_REPORTED = [
  "downloading",
  "staged",
  "installing",
  "verifying",
  "applied",
  "rolling_back",
  "rolled_back",
  "failed",
  "cancelled",
] as const;
export type ReportedStatus = (typeof TARGET_STATUSES_REPORTED)[number];

const TargetReport = Shape({
  kind: Type.Literal("target"),
  deployment_id: Name,
  target_id: Name,
  attempt: SmallCount,
  status: OneOf(TARGET_STATUSES_REPORTED),
  reason: Maybe(Type.String({ maxLength: 100 })),
  message: Maybe(Text),
  /** Config targets: false if the robot already had these values. */
  changed: Maybe(Type.Boolean()),
});
export type TargetReport = Static<typeof TargetReport>;

/** What an app runs. Sent when it changes and on every connect. */
const AppReport = Shape({
  kind: Type.Literal("app"),
  app: Name,
  release_id: Nullable(Name),
  previous_release_id: Nullable(Name),
  status: OneOf(["running", "stopped", "failed", "starting"]),
});
export type AppReport = Static<typeof AppReport>;

/** The robot has stored the desired state of this generation and applies it. */
const ObservedReport = Shape({ kind: Type.Literal("observed"), generation: Count });

/** The config file on the robot's disk. Sent on every connect and when the file changes, also when it is edited by hand (drift). */
const ConfigReport = Shape({ kind: Type.Literal("config"), namespace: Name, version: SmallCount, sha256: Type.String({ maxLength: 64 }) });
export type ConfigReport = Static<typeof ConfigReport>;

export const ReportBody = Type.Union([TargetReport, AppReport, ObservedReport, ConfigReport]);
export type ReportBody = Static<typeof ReportBody>;

/** A durable report from the outbox; resent until the server acknowledges `seq` or a higher one. */
export const Report = Shape({
  type: Type.Literal("report"),
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  at: Type.String({ maxLength: 40 }),
  body: ReportBody,
});
export type Report = Static<typeof Report>;

/**
 * Progress of a download. Not durable, because the next message supersedes it. With `waiting_for`, the download is complete and the robot
 * postpones the update because of its lock or its gate. The message is then repeated every minute, and no step times out meanwhile.
 */
export const Progress = Shape({
  type: Type.Literal("progress"),
  target_id: Name,
  attempt: SmallCount,
  bytes_done: Count,
  bytes_total: Count,
  waiting_for: Maybe(Type.Literal("robot")),
});
export type Progress = Static<typeof Progress>;

const Num = Type.Number();

export const CheckStatus = OneOf(["ok", "warn", "error"]);

export const RosAdapterState = OneOf(["searching", "connected", "not_found", "failed", "lost", "standby"]);
export type RosAdapterState = Static<typeof RosAdapterState>;

/** Health as measured by the robot; the server adds robot_id and stores `at` with its own receive time. */
export const HealthBody = Shape({
  at: Type.String({ maxLength: 40 }),
  boot_id: Name,
  uptime_seconds: Num,
  cpu: Shape({ percent: Num, load_1m: Num, cores: Type.Integer(), temperature_celsius: Nullable(Num) }),
  memory: Shape({ used_bytes: Num, total_bytes: Num }),
  disks: Type.Array(Shape({ mount: Type.String({ maxLength: 500 }), used_bytes: Num, total_bytes: Num }), { maxItems: 64 }),
  network: Type.Array(
    Shape({ name: Name, rx_bytes: Num, tx_bytes: Num, addresses: Type.Array(Type.String({ maxLength: 100 }), { maxItems: 64 }) }),
    { maxItems: 64 },
  ),
  battery: Nullable(Shape({ percent: Num, charging: Type.Boolean() })),
  workloads: Type.Array(
    Shape({ app: Name, kind: Name, status: Name, restarts: Count, release_tag: Nullable(Type.String({ maxLength: 200 })) }),
    { maxItems: 256 },
  ),
  ros: Nullable(
    Shape({
      distro: Nullable(Name),
      adapter: Name,
      nodes: Type.Array(Name, { maxItems: 1_000 }),
      topics: Type.Array(Name, { maxItems: 5_000 }),
    }),
  ),
  /** Every adapter of the robot's configuration, in order of precedence. Sent only to servers with the feature `ros_adapters`. */
  ros_adapters: Maybe(
    Type.Array(
      Shape({
        name: Name,
        state: RosAdapterState,
        distro: Maybe(Nullable(Name)),
        nodes: Maybe(Count),
        topics: Maybe(Count),
        reason: Maybe(Type.String({ maxLength: 500 })),
      }),
      { maxItems: 16 },
    ),
  ),
  checks: Type.Array(Shape({ name: Name, status: CheckStatus, message: Text }), { maxItems: 256 }),
  metrics: Type.Record(Type.String(), Num, { maxProperties: METRICS_MAX, propertyNames: { maxLength: 255 } }),
  status: CheckStatus,
});
export type HealthBody = Static<typeof HealthBody>;

export const Health = Shape({ type: Type.Literal("health"), snapshot: HealthBody });
export type Health = Static<typeof Health>;

export type LogLevel = (typeof LOG_LEVELS)[number];

export const LogRecordBody = Shape({
  /** Position in the robot's log spool; a gap record covers the numbers in its range. */
  seq: Type.Integer({ minimum: 1 }),
  at: Type.String({ maxLength: 40 }),
  level: OneOf(LOG_LEVELS),
  source: Type.String({ minLength: 1, maxLength: 200 }),
  message: Type.String({ maxLength: LOG_MESSAGE_CHARACTERS_MAX }),
  fields: Type.Record(Type.String(), Type.Unknown()),
});
export type LogRecordBody = Static<typeof LogRecordBody>;

export const Logs = Shape({
  type: Type.Literal("logs"),
  records: Type.Array(LogRecordBody, { minItems: 1, maxItems: LOG_BATCH_RECORDS_MAX }),
});
export type Logs = Static<typeof Logs>;

/** All messages of a robot, by `type`. */
export const robotMessages = { hello: Hello, report: Report, progress: Progress, health: Health, logs: Logs } as const;
export type RobotMessage = Hello | Report | Progress | Health | Logs;
export type RobotMessageType = RobotMessage["type"];

/** A release with the fields that the robot needs to install it. */
export interface DesiredRelease {
  id: string;
  tag: string;
  kind: string;
  artifact_sha256: string;
  artifact_size: number;
  image: string | null;
  manifest: unknown;
  /** The maker's signature (`SignedText` of a `ReleaseStatement`); absent or null: unsigned. */
  signature?: unknown;
  /** The parts of an uploaded image, each a blob available at GET /agent/artifacts/{sha256}; absent or null: none. */
  layers?: DesiredLayers | null;
  /** Login for the registry of `image`; absent if none is configured or needed. It is only in this message and never stored. */
  registry_auth?: { username: string; password: string } | null;
}

export interface DesiredLayers {
  config: { sha256: string; size: number };
  /**
   * From lowest to topmost. `sha256` and `size` describe the blob's bytes as in the archive, gzip or plain; `diff_id` is the SHA-256 (64
   * hex digits) of the layer's plain tar.
   */
  layers: { sha256: string; size: number; diff_id: string }[];
  repo_tags?: string[];
}

export interface DesiredApp {
  /** null: the app must be stopped and removed. */
  release: DesiredRelease | null;
  /** The deployment target that requests it; null if no deployment is in progress. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  policy: {
    verify_seconds: number;
    /** Installation window, in milliseconds since 1970 by the server's clock. The download may happen at any time. */
    install_from?: number;
    install_until?: number;
  };
}

export interface DesiredConfig {
  version: number;
  /** SHA-256 (hex) of the bytes returned by GET /agent/configs/{namespace}. */
  sha256: string;
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
}

/** The desired state of the robot. Absent apps and namespaces stay unchanged. */
export interface Desired {
  type: "desired";
  /** The robot's id; some servers do not send it. */
  robot_id?: string;
  generation: number;
  apps: Record<string, DesiredApp>;
  configs: Record<string, DesiredConfig>;
}

export interface Challenge {
  type: "challenge";
  nonce: string;
  /** Versions that the server supports; absent: 1. */
  protocols?: number[];
}

export interface Welcome {
  type: "welcome";
  protocol: number;
  /** The robot's features that the server supports too. */
  features?: string[];
  session_id: string;
  /** Milliseconds since 1970 by the server's clock: time base of signed HTTP requests. */
  server_time: number;
  heartbeat_seconds: number;
  health_seconds: number;
  log_flush_ms: number;
  /**
   * Sequence numbers of the newest report and log record that the server has stored. The robot drops everything up to them and sends the
   * rest.
   */
  acked_seq: number;
  acked_log_seq: number;
}

/** The server refuses this robot and closes the link after this message. */
export interface Refused {
  type: "refused";
  code: "unknown_robot" | "bad_signature" | "wrong_host" | "unsupported_protocol" | "decommissioned" | "held" | "busy";
  message: string;
  retry_after_ms?: number;
}

export interface Ack {
  type: "ack";
  seq: number;
}

export interface LogAck {
  type: "log_ack";
  seq: number;
}

/** Whether a viewer follows the log. If so, the robot sends records immediately instead of at the flush interval. */
export interface LogFollow {
  type: "log_follow";
  on: boolean;
}

export type ServerMessage = Challenge | Welcome | Refused | Desired | Ack | LogAck | LogFollow;
