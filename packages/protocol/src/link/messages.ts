import { type Static, Type } from "typebox";
import { LOG_BATCH_RECORDS_MAX, LOG_LEVELS, LOG_MESSAGE_CHARACTERS_MAX } from "./limits.ts";

/**
 * Control messages, JSON on channel 0 (`logs` on the log channel). What comes from a robot is checked against these
 * schemas by the server; the agent uses the types only, so that it need not load a schema library.
 */
/** Values that programs on a robot report beside its own. */
const METRICS_MAX = 1_000;
const strict = { additionalProperties: false } as const;
const Name = Type.String({ minLength: 1, maxLength: 255 });
const Count = Type.Integer({ minimum: 0 });
/** What the database keeps in 32 bits. */
const SmallCount = Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 });
const Text = Type.String({ maxLength: 4_000 });

export const Platform = Type.Object(
  {
    os: Type.Optional(Type.String({ maxLength: 200 })),
    arch: Type.Optional(Type.String({ maxLength: 200 })),
    hostname: Type.Optional(Type.String({ maxLength: 255 })),
    kernel: Type.Optional(Type.String({ maxLength: 200 })),
  },
  strict,
);
export type Platform = Static<typeof Platform>;

const GENERATION_MAX = 2 ** 52;

/** First message of a robot, in answer to `challenge`. */
export const Hello = Type.Object(
  {
    type: Type.Literal("hello"),
    protocols: Type.Array(Type.Integer(), { minItems: 1, maxItems: 16 }),
    robot_id: Name,
    /** base64 Ed25519 signature of `linkChallengeText` */
    signature: Type.String({ maxLength: 200 }),
    /** The TLS channel as the robot sees it (`channelBinding`); absent: the connection has no TLS. */
    channel: Type.Optional(Type.String({ maxLength: 100 })),
    boot_id: Name,
    /** Made at each start of the agent, and never stored: two that are alive at once are two machines, or two processes. */
    run_id: Name,
    /** Names the outbox on the robot's disk; sequence numbers count within it. */
    outbox_id: Name,
    agent_version: Name,
    platform: Platform,
    /** Release kinds that this agent can install. */
    kinds: Type.Array(Name, { maxItems: 64 }),
    /** Streams that this agent can open. */
    streams: Type.Array(Name, { maxItems: 64 }),
    /** What it knows of LINK_FEATURES; absent: nothing. */
    features: Type.Optional(Type.Array(Name, { maxItems: 64 })),
    /** Generation of the desired state that the robot has stored. Bounded: the server counts on from it, in exact numbers. */
    generation: Type.Integer({ minimum: 0, maximum: GENERATION_MAX }),
  },
  // The one message that may say more than this server knows: the robot may be newer.
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

const TargetReport = Type.Object(
  {
    kind: Type.Literal("target"),
    deployment_id: Name,
    target_id: Name,
    attempt: SmallCount,
    status: Type.Enum([...TARGET_STATUSES_REPORTED]),
    reason: Type.Optional(Type.String({ maxLength: 100 })),
    message: Type.Optional(Text),
    /** Config targets: false when the robot had these values already. */
    changed: Type.Optional(Type.Boolean()),
  },
  strict,
);
export type TargetReport = Static<typeof TargetReport>;

/** What runs: sent when it changes and on every connect. */
const AppReport = Type.Object(
  {
    kind: Type.Literal("app"),
    app: Name,
    release_id: Type.Union([Name, Type.Null()]),
    previous_release_id: Type.Union([Name, Type.Null()]),
    status: Type.Enum(["running", "stopped", "failed", "starting"]),
  },
  strict,
);
export type AppReport = Static<typeof AppReport>;

/** The robot has stored this desired state and acts on it. */
const ObservedReport = Type.Object({ kind: Type.Literal("observed"), generation: Count }, strict);

/** Which config file the robot has on disk: sent when it changes (also by hand: drift) and on every connect. */
const ConfigReport = Type.Object(
  { kind: Type.Literal("config"), namespace: Name, version: SmallCount, sha256: Type.String({ maxLength: 64 }) },
  strict,
);
export type ConfigReport = Static<typeof ConfigReport>;

export const ReportBody = Type.Union([TargetReport, AppReport, ObservedReport, ConfigReport]);
export type ReportBody = Static<typeof ReportBody>;

/** A durable report from the outbox; resent until the server acknowledges `seq` or a higher one. */
export const Report = Type.Object(
  {
    type: Type.Literal("report"),
    seq: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    at: Type.String({ maxLength: 40 }),
    body: ReportBody,
  },
  strict,
);
export type Report = Static<typeof Report>;

/**
 * How far a download is; not durable, the next one tells more. With `waiting_for` everything is there and the robot itself holds
 * the update back (its lock, its gate): said again each minute, and no step times out meanwhile.
 */
export const Progress = Type.Object(
  {
    type: Type.Literal("progress"),
    target_id: Name,
    attempt: SmallCount,
    bytes_done: Count,
    bytes_total: Count,
    waiting_for: Type.Optional(Type.Literal("robot")),
  },
  strict,
);
export type Progress = Static<typeof Progress>;

const Num = Type.Number();
const OrNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);

export const CheckStatus = Type.Enum(["ok", "warn", "error"]);

export const RosAdapterState = Type.Enum(["searching", "connected", "not_found", "failed", "lost", "standby"]);
export type RosAdapterState = Static<typeof RosAdapterState>;

/** Health as the robot measures it; the server adds robot_id and keeps `at` beside its own receive time. */
export const HealthBody = Type.Object(
  {
    at: Type.String({ maxLength: 40 }),
    boot_id: Name,
    uptime_seconds: Num,
    cpu: Type.Object({ percent: Num, load_1m: Num, cores: Type.Integer(), temperature_celsius: OrNull(Num) }, strict),
    memory: Type.Object({ used_bytes: Num, total_bytes: Num }, strict),
    disks: Type.Array(Type.Object({ mount: Type.String({ maxLength: 500 }), used_bytes: Num, total_bytes: Num }, strict), { maxItems: 64 }),
    network: Type.Array(
      Type.Object(
        { name: Name, rx_bytes: Num, tx_bytes: Num, addresses: Type.Array(Type.String({ maxLength: 100 }), { maxItems: 64 }) },
        strict,
      ),
      { maxItems: 64 },
    ),
    battery: OrNull(Type.Object({ percent: Num, charging: Type.Boolean() }, strict)),
    workloads: Type.Array(
      Type.Object({ app: Name, kind: Name, status: Name, restarts: Count, release_tag: OrNull(Type.String({ maxLength: 200 })) }, strict),
      { maxItems: 256 },
    ),
    ros: OrNull(
      Type.Object(
        {
          distro: OrNull(Name),
          adapter: Name,
          nodes: Type.Array(Name, { maxItems: 1_000 }),
          topics: Type.Array(Name, { maxItems: 5_000 }),
        },
        strict,
      ),
    ),
    /** Every adapter of the robot's configuration, in order of precedence; only to servers that know the feature `ros_adapters`. */
    ros_adapters: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Name,
            state: RosAdapterState,
            distro: Type.Optional(OrNull(Name)),
            nodes: Type.Optional(Count),
            topics: Type.Optional(Count),
            reason: Type.Optional(Type.String({ maxLength: 500 })),
          },
          strict,
        ),
        { maxItems: 16 },
      ),
    ),
    checks: Type.Array(Type.Object({ name: Name, status: CheckStatus, message: Text }, strict), { maxItems: 256 }),
    metrics: Type.Record(Type.String(), Num, { maxProperties: METRICS_MAX, propertyNames: { maxLength: 255 } }),
    status: CheckStatus,
  },
  strict,
);
export type HealthBody = Static<typeof HealthBody>;

export const Health = Type.Object({ type: Type.Literal("health"), snapshot: HealthBody }, strict);
export type Health = Static<typeof Health>;

export type LogLevel = (typeof LOG_LEVELS)[number];

export const LogRecordBody = Type.Object(
  {
    /** Counts within the robot's log spool; a gap record stands for the numbers it names. */
    seq: Type.Integer({ minimum: 1 }),
    at: Type.String({ maxLength: 40 }),
    level: Type.Enum([...LOG_LEVELS]),
    source: Type.String({ minLength: 1, maxLength: 200 }),
    message: Type.String({ maxLength: LOG_MESSAGE_CHARACTERS_MAX }),
    fields: Type.Record(Type.String(), Type.Unknown()),
  },
  strict,
);
export type LogRecordBody = Static<typeof LogRecordBody>;

export const Logs = Type.Object(
  { type: Type.Literal("logs"), records: Type.Array(LogRecordBody, { minItems: 1, maxItems: LOG_BATCH_RECORDS_MAX }) },
  strict,
);
export type Logs = Static<typeof Logs>;

/** Everything that a robot may say, by `type`. */
export const robotMessages = { hello: Hello, report: Report, progress: Progress, health: Health, logs: Logs } as const;
export type RobotMessage = Hello | Report | Progress | Health | Logs;
export type RobotMessageType = RobotMessage["type"];

/** A release as the robot needs it to install. */
export interface DesiredRelease {
  id: string;
  tag: string;
  kind: string;
  artifact_sha256: string;
  artifact_size: number;
  image: string | null;
  manifest: unknown;
  /** What its maker signed (`SignedText` of a `ReleaseStatement`); absent or null: nobody did. */
  signature?: unknown;
  /** The parts of an uploaded image, each a blob that GET /agent/artifacts/{sha256} answers; absent or null: there are none. */
  layers?: DesiredLayers | null;
  /** For the registry of `image`; only in the message, never stored: absent: none is known, or none is needed. */
  registry_auth?: { username: string; password: string } | null;
}

export interface DesiredLayers {
  config: { sha256: string; size: number };
  /**
   * From the lowest to the topmost. `sha256` and `size` are of the blob's bytes as the archive had them, gzip or plain;
   * `diff_id` is the SHA-256 (64 hex digits) of the layer's plain tar.
   */
  layers: { sha256: string; size: number; diff_id: string }[];
  repo_tags?: string[];
}

export interface DesiredApp {
  /** null: this app is to be stopped and removed. */
  release: DesiredRelease | null;
  /** The deployment target that asks for it; null when nothing is being deployed. */
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  policy: {
    verify_seconds: number;
    /** Milliseconds since 1970 by the server's clock: it is fetched at any time and installed only from one until the other. */
    install_from?: number;
    install_until?: number;
  };
}

export interface DesiredConfig {
  version: number;
  /** SHA-256 (hex) of the bytes that GET /agent/configs/{namespace} answers. */
  sha256: string;
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
}

/** What the robot is to look like. An app or namespace that is absent is left as it is. */
export interface Desired {
  type: "desired";
  /** Whom it is for; absent from servers that do not say. */
  robot_id?: string;
  generation: number;
  apps: Record<string, DesiredApp>;
  configs: Record<string, DesiredConfig>;
}

export interface Challenge {
  type: "challenge";
  nonce: string;
  /** Versions that the server speaks; absent: 1. */
  protocols?: number[];
}

export interface Welcome {
  type: "welcome";
  protocol: number;
  /** What of the robot's features the server knows too. */
  features?: string[];
  session_id: string;
  /** Milliseconds since 1970 by the server's clock: base of signed HTTP requests. */
  server_time: number;
  heartbeat_seconds: number;
  health_seconds: number;
  log_flush_ms: number;
  /** Highest report and log record that the server has; the robot drops them and sends the rest. */
  acked_seq: number;
  acked_log_seq: number;
}

/** The server will not talk to this robot; it closes the link after this. */
export interface Refused {
  type: "refused";
  code: "unknown_robot" | "bad_signature" | "unsupported_protocol" | "decommissioned" | "held" | "busy";
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

/** Somebody follows the log: send records as they come instead of at the flush interval. */
export interface LogFollow {
  type: "log_follow";
  on: boolean;
}

export type ServerMessage = Challenge | Welcome | Refused | Desired | Ack | LogAck | LogFollow;
