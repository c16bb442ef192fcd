import type { LogLevel } from "@roamfleet/protocol/link";

/** Streams that the robot's config file can disable. */
export const STREAM_SWITCHES = ["shell", "camera", "topics", "forward", "files"] as const;
type StreamSwitch = (typeof STREAM_SWITCHES)[number];

export const ROS_ADAPTERS = ["dds", "foxglove", "ros2", "rosbridge", "ros1"] as const;
export type RosAdapterName = (typeof ROS_ADAPTERS)[number];

/**
 * Highest DDS domain id. DDS computes port numbers from the domain id, and a higher id would give invalid
 * ports.
 */
export const DOMAIN_ID_MAX = 232;

/** Streams through which a user could change what a robot runs. */
export const SIGNED_SWITCHES = ["shell", "forward", "files"] as const satisfies readonly StreamSwitch[];
export type SignedSwitch = (typeof SIGNED_SWITCHES)[number];

/** A camera of the robot. Users select it with `--camera NAME`. */
export type CameraSource = { name: string } & (
  | { kind: "ffmpeg"; input: string[] }
  | { kind: "mjpeg"; url: string }
  | { kind: "ros"; topic: string }
  | { kind: "test_picture" }
);

/** Keeps only a part of the records of some sources. At least one of `level` and `records_per_second` is set. */
export interface LogFilterRule {
  /** Name of a source, in which `*` stands for any characters. */
  source: string;
  /** Records below this level are dropped. */
  level?: LogLevel;
  /** Maximum sustained rate of each source. Records over it are dropped, and the log contains their number. */
  records_per_second?: number;
}

/** A command with its time limit. */
export interface HookCommand {
  command: string[];
  timeout_ms: number;
}

/** The commands that install OS images on a robot without RAUC. docs/guide/os-images.md defines them. */
export interface OsImageHook {
  status: HookCommand;
  install: HookCommand;
  activate: HookCommand;
  confirm: HookCommand;
  reboot: HookCommand;
}

export const OS_IMAGE_DEFAULTS = {
  command_ms: 60_000,
  install_ms: 30 * 60_000,
  /** Time after the boot of a new image within which the agent must connect and all apps must be healthy. */
  connect_ms: 240_000,
  reboot: ["systemctl", "reboot"],
};

/** Where a service answers GET with its metrics. `instance` names it for people. */
export type ScrapeAddress = { instance: string; path: string } & ({ socket: string } | { host: string; port: number });

export interface ScrapeConfig {
  address: ScrapeAddress;
  /** Added to each series. */
  labels: Record<string, string>;
  /** Seconds between two requests. Absent: the interval of the robot's own values. */
  interval_seconds?: number;
}

/** A numeric field of a ROS topic that is collected as a metric. */
export interface RosValueConfig {
  topic: string;
  /** Path of the field, such as `pose.position.x` or `ranges[0]`. */
  field: string;
  name: string;
}

/** The robot owner's settings, made on the robot itself. No server can change them. */
export interface RobotConfig {
  streams: Record<StreamSwitch, boolean>;
  shell: {
    /**
     * The user that shells run as. Absent: the agent's own user, but if that is root, the agent refuses
     * shells.
     */
    user?: string;
    /** Command line of the shell. Absent: the user's login shell. */
    command?: string[];
  };
  cameras: CameraSource[];
  ros: {
    /** ROS adapters in the order in which they are tried. Empty: ROS is disabled. */
    adapters: RosAdapterName[];
    domain_id?: number;
    /** Absolute directories that are searched for message definitions, before AMENT_PREFIX_PATH. */
    prefixes?: string[];
    foxglove_url?: string;
    rosbridge_url?: string;
    ros1_master_uri?: string;
  };
  logs: {
    /** The systemd units whose journal is sent to the server; true: all units. */
    journald: boolean | string[];
    /** Glob patterns of the log files whose lines are sent to the server. */
    files: string[];
    rosout: boolean;
    /** Rules for all sources, also apps and the agent. The first that matches applies. */
    filters: LogFilterRule[];
  };
  /** Maximum data rates in bytes per second, for links whose data is paid for. Absent: unlimited. */
  network: {
    /** Downloads of releases and layers. */
    download_bytes_per_second?: number;
    /** All messages to the server. Reports, heartbeats and shells are counted but never delayed. */
    upload_bytes_per_second?: number;
  };
  forward: {
    /** `host:port` patterns of the addresses to which users may open tunnels. Either part may be `*`. */
    allow: string[];
  };
  files: {
    /** Absolute directories below which files may be read and written. */
    directories: string[];
  };
  containers: {
    /** Whether container manifests may request devices. `host_network` is the same for the host network. */
    devices: boolean;
    host_network: boolean;
  };
  health: {
    /** Seconds between health measurements. Absent: the server's `health_seconds`. */
    interval_seconds?: number;
  };
  metrics: {
    /** Whether the agent collects samples of the machine and sends them to the server. */
    is_on: boolean;
    /** Seconds between two samples of a value. */
    interval_seconds: number;
    /** Seconds between two chunks of samples that are sent to the server. */
    flush_seconds: number;
    /** Services whose metrics are collected in the text format of Prometheus. An app names its port in its manifest instead. */
    scrape: ScrapeConfig[];
    ros: RosValueConfig[];
  };
  os_image: {
    /** Commands that install OS images. Absent: RAUC installs them, if the robot has it. */
    hook?: OsImageHook;
    connect_ms: number;
  };
  signed: {
    /** Streams that stay allowed while this robot accepts only signed releases. */
    allow: SignedSwitch[];
  };
}

/** The settings of a robot without a config file. */
export const ROBOT_CONFIG_DEFAULT: RobotConfig = {
  streams: { shell: true, camera: true, topics: true, forward: true, files: true },
  shell: {},
  cameras: [],
  ros: { adapters: [...ROS_ADAPTERS] },
  logs: { journald: false, files: [], rosout: false, filters: [] },
  network: {},
  forward: { allow: ["127.0.0.1:*", "[::1]:*"] },
  files: { directories: ["/"] },
  containers: { devices: false, host_network: false },
  health: {},
  metrics: { is_on: true, interval_seconds: 10, flush_seconds: 900, scrape: [], ros: [] },
  os_image: { connect_ms: OS_IMAGE_DEFAULTS.connect_ms },
  signed: { allow: [] },
};
