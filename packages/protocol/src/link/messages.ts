import { type Static, Type } from "typebox";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { CHUNK_BYTES_MAX, LOG_BATCH_RECORDS_MAX, LOG_LEVELS, LOG_MESSAGE_CHARACTERS_MAX } from "./limits.ts";

/**
 * Control messages: JSON on channel 0 (`logs` on the log channel). The server validates messages from robots against these schemas; the
 * agent uses only the types, to avoid loading a schema library.
 */
/** Maximum values that programs on a robot may report in addition to the agent's. */
const METRICS_MAX = 1_000;
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Count = Type.Integer({ minimum: 0 });
/** A chunk of CHUNK_BYTES_MAX in base64. */
const SAMPLES_CHARACTERS_MAX = Math.ceil(CHUNK_BYTES_MAX / 3) * 4;
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
    /** The robot's signature of `linkChallengeText` in base64: of Ed25519 the 64 bytes, of ECDSA the DER encoding. */
    signature: Type.String({ maxLength: 200 }),
    /** The TLS channel as seen by the robot (`channelBinding`); absent: the connection has no TLS. */
    channel: Maybe(Type.String({ maxLength: 100 })),
    boot_id: Name,
    /**
     * Id that the agent creates at each start and never stores. Two values at the same time mean that two machines or two processes use the
     * robot's identity.
     */
    run_id: Name,
    /** Id of the outbox on the robot's disk. Sequence numbers are unique within one outbox. */
    outbox_id: Name,
    agent_version: Name,
    platform: Platform,
    /** Release kinds that this agent can install. */
    kinds: Type.Array(Name, { maxItems: 64 }),
    /** Streams that this agent can open. */
    streams: Type.Array(Name, { maxItems: 64 }),
    /** The LINK_FEATURES that the agent supports. Default: none. */
    features: Maybe(Type.Array(Name, { maxItems: 64 })),
    /** Generation of the desired state that the robot has stored. Its limit ensures that the server can still increment it exactly. */
    generation: Type.Integer({ minimum: 0, maximum: GENERATION_MAX }),
  },
  // Allow unknown fields, only in this message, because the robot may be newer than the server.
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
  /** For targets of config deployments: false if the robot already had these values. */
  changed: Maybe(Type.Boolean()),
});
export type TargetReport = Static<typeof TargetReport>;

/** Reports what an app runs. The robot sends this when it changes and on every connect. */
const AppReport = Shape({
  kind: Type.Literal("app"),
  app: Name,
  release_id: Nullable(Name),
  previous_release_id: Nullable(Name),
  status: OneOf(["running", "stopped", "failed", "starting"]),
});
export type AppReport = Static<typeof AppReport>;

/** Reports that the robot has stored the desired state of this generation and applies it. */
const ObservedReport = Shape({ kind: Type.Literal("observed"), generation: Count });

/**
 * Reports the config file on the robot's disk. The robot sends this on every connect and when the file changes, also when it was edited by
 * hand (drift).
 */
const ConfigReport = Shape({ kind: Type.Literal("config"), namespace: Name, version: SmallCount, sha256: Type.String({ maxLength: 64 }) });
export type ConfigReport = Static<typeof ConfigReport>;

export const ReportBody = Type.Union([TargetReport, AppReport, ObservedReport, ConfigReport]);
export type ReportBody = Static<typeof ReportBody>;

/** A durable report from the robot's outbox. The robot resends it until the server acknowledges this `seq` or a higher one. */
export const Report = Shape({
  type: Type.Literal("report"),
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  at: Type.String({ maxLength: 40 }),
  body: ReportBody,
});
export type Report = Static<typeof Report>;

/**
 * Progress of a download. It is not stored on the robot, because the next message supersedes it. `waiting_for` means that the download is
 * complete and that the robot postpones the update because of its lock or its gate. The robot then repeats the message every minute, and no
 * step times out.
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
  /** Every ROS adapter in the robot's configuration, in order of precedence. Sent only to servers with the feature `ros_adapters`. */
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

export const Health = Shape({
  type: Type.Literal("health"),
  snapshot: HealthBody,
  /**
   * True if `ros` and `ros_adapters` are as in the robot's last snapshot of this link. In this snapshot, `ros` is then null and
   * `ros_adapters` is absent. Sent only to servers with the feature `health_changes`.
   */
  ros_unchanged: Maybe(Type.Literal(true)),
});
export type Health = Static<typeof Health>;

export type LogLevel = (typeof LOG_LEVELS)[number];

export const LogRecordBody = Shape({
  /** Sequence number of the record in the robot's log spool. A gap record covers all missing numbers in its range. */
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

/**
 * A chunk of samples of metrics (`encodeChunk`), in base64. The robot sends one at a time, and again until the server acknowledges it. Sent
 * only to servers with the feature `samples`.
 */
export const Samples = Shape({
  type: Type.Literal("samples"),
  /** Id of the robot's spool. Numbers are unique within one spool. */
  spool_id: Name,
  seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  chunk: Type.String({ maxLength: SAMPLES_CHARACTERS_MAX }),
});
export type Samples = Static<typeof Samples>;

/** All messages of a robot, by `type`. */
export const robotMessages = { hello: Hello, report: Report, progress: Progress, health: Health, logs: Logs, samples: Samples } as const;
export type RobotMessage = Hello | Report | Progress | Health | Logs | Samples;
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
  /** The parts of an uploaded image. Each is a blob that the robot gets from /agent/artifacts/{sha256}. Absent or null: none. */
  layers?: DesiredLayers | null;
  /** Login for the registry of `image`; absent if none is configured or needed. It is only in this message and never stored. */
  registry_auth?: { username: string; password: string } | null;
}

export interface DesiredLayers {
  config: { sha256: string; size: number };
  /**
   * The layers, from lowest to topmost. `sha256` and `size` describe the bytes of the blob as they are in the archive, gzip or plain.
   * `diff_id` is the SHA-256 (64 hex digits) of the layer's plain tar.
   */
  layers: { sha256: string; size: number; diff_id: string }[];
  repo_tags?: string[];
}

export interface DesiredApp {
  /** The desired release; null if the app must be stopped and removed. */
  release: DesiredRelease | null;
  /** The deployment target that requests this release; null if no deployment is in progress. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  policy: {
    verify_seconds: number;
    /**
     * Start and end of the time in which the robot may install, in milliseconds since 1970 by the server's clock. The robot may download at
     * any time.
     */
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
  /** Protocol versions that the server supports. Default: only version 1. */
  protocols?: number[];
}

export interface Welcome {
  type: "welcome";
  protocol: number;
  /** The features that both the robot and the server support. */
  features?: string[];
  session_id: string;
  /** The server's time in milliseconds since 1970. The robot bases the times of its signed HTTP requests on it. */
  server_time: number;
  heartbeat_seconds: number;
  health_seconds: number;
  log_flush_ms: number;
  /**
   * Sequence numbers of the newest report and the newest log record that the server has stored. The robot drops everything up to these
   * numbers and sends the rest.
   */
  acked_seq: number;
  acked_log_seq: number;
}

/** States that the server refuses this robot. The server closes the link after this message. */
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

/** States that the server has stored this chunk of samples, or has refused it for good. */
export interface SamplesAck {
  type: "samples_ack";
  spool_id: string;
  seq: number;
}

/** States whether a viewer follows the robot's log. If so, the robot sends records immediately instead of at the flush interval. */
export interface LogFollow {
  type: "log_follow";
  on: boolean;
}

export type ServerMessage = Challenge | Welcome | Refused | Desired | Ack | LogAck | SamplesAck | LogFollow;
