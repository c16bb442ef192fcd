/** Streams that the robot itself may switch off. */
export const STREAM_SWITCHES = ["shell", "camera", "topics", "forward", "files"] as const;
export type StreamSwitch = (typeof STREAM_SWITCHES)[number];

export const ROS_ADAPTERS = ["dds", "foxglove", "ros2", "rosbridge", "ros1"] as const;
export type RosAdapterName = (typeof ROS_ADAPTERS)[number];

/** Streams by which a person could change what a robot runs. */
export const SIGNED_SWITCHES = ["shell", "forward", "files"] as const satisfies readonly StreamSwitch[];
export type SignedSwitch = (typeof SIGNED_SWITCHES)[number];

/** Where pictures come from; the name is what `--camera` chooses by. */
export type CameraSource = { name: string } & (
  | { kind: "ffmpeg"; input: string[] }
  | { kind: "mjpeg"; url: string }
  | { kind: "ros"; topic: string }
  | { kind: "test_picture" }
);

/** What the robot's owner decides on the robot itself, and no server can change. */
export interface RobotConfig {
  streams: Record<StreamSwitch, boolean>;
  shell: {
    /** Whose shell it is; absent: the agent's own user, unless that is root. */
    user?: string;
    /** Absent: the user's login shell. */
    command?: string[];
  };
  cameras: CameraSource[];
  ros: {
    /** In the order in which they are tried; empty: no ROS. */
    adapters: RosAdapterName[];
    domain_id?: number;
    /** Where definitions of messages are looked for, before AMENT_PREFIX_PATH; absolute. */
    prefixes?: string[];
    foxglove_url?: string;
    rosbridge_url?: string;
    ros1_master_uri?: string;
  };
  logs: {
    /** The units whose journal is sent; true: all. */
    journald: boolean | string[];
    /** Patterns of files whose lines are sent. */
    files: string[];
    rosout: boolean;
  };
  forward: {
    /** `host:port`, either may be `*`: where ports may lead to. */
    allow: string[];
  };
  files: {
    /** Below which files may be read and written; absolute. */
    directories: string[];
  };
  containers: {
    /** What their manifests may ask of the robot. */
    devices: boolean;
    host_network: boolean;
  };
  signed: {
    /** What stays possible while this robot accepts signed releases only. */
    allow: SignedSwitch[];
  };
}

/** Of a robot that has no config file. */
export const ROBOT_CONFIG_DEFAULT: RobotConfig = {
  streams: { shell: true, camera: true, topics: true, forward: true, files: true },
  shell: {},
  cameras: [],
  ros: { adapters: [...ROS_ADAPTERS] },
  logs: { journald: false, files: [], rosout: false },
  forward: { allow: ["127.0.0.1:*", "[::1]:*"] },
  files: { directories: ["/"] },
  containers: { devices: false, host_network: false },
  signed: { allow: [] },
};
