import { type Static, Type } from "typebox";
import { Maybe, OneOf, Shape } from "./schema.ts";

/**
 * How a robot runs a container: the manifest of a `container_image` release. The server validates it when the release is created. The agent
 * uses only the types, to avoid loading a schema library. Without a manifest, the image's own command runs on a separate network and must
 * still be running at the end of the verification.
 */

const TEXT_MAX = 4_000;
const NO_NUL = "^[^\\u0000]*$";
const Text = Type.String({ maxLength: TEXT_MAX, pattern: NO_NUL, description: `a string of at most ${TEXT_MAX} characters without NUL` });
const Program = Type.String({ minLength: 1, maxLength: TEXT_MAX, pattern: NO_NUL, description: "a non-empty string" });
/** An argument list; the program is its first item. */
const Argv = Type.Array(Program, { minItems: 1, maxItems: 256 });
const Port = Type.Integer({ minimum: 1, maximum: 65_535 });
const AbsolutePath = Type.String({
  maxLength: TEXT_MAX,
  pattern: "^/(?!.*(?:^|/)\\.\\.(?:/|$))[^\\u0000]*$",
  description: "an absolute path without ..",
});

/** Signals that can notify a container of a new config; excludes SIGKILL and SIGSTOP. */
const CONTAINER_RELOAD_SIGNALS = ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGCONT", "SIGWINCH"] as const;
const CONTAINER_RESTART_POLICIES = ["always", "on_failure", "never"] as const;
const CONTAINER_REPLACE_MODES = ["after", "beside"] as const;
const CONTAINER_ULIMITS = [
  "as",
  "core",
  "cpu",
  "data",
  "fsize",
  "locks",
  "memlock",
  "msgqueue",
  "nice",
  "nofile",
  "nproc",
  "rss",
  "rtprio",
  "rttime",
  "sigpending",
  "stack",
] as const;

const PortMapping = Shape({
  container: Port,
  /** Port of the robot. Default: any free port. */
  host: Maybe(Port),
  /** Address of the robot. Default: every address. */
  host_address: Maybe(Type.String({ format: "ipv4", description: "an IPv4 address" })),
  /** Transport protocol of the port. Default: tcp. */
  protocol: Maybe(OneOf(["tcp", "udp"])),
});

const Mount = Shape({
  type: OneOf(["bind", "volume", "tmpfs"]),
  /** What is mounted: for type bind a path on the robot, for type volume the volume's name. Absent for type tmpfs. */
  source: Maybe(
    Type.String({
      maxLength: TEXT_MAX,
      pattern: "^(?:/(?!.*(?:^|/)\\.\\.(?:/|$))[^\\u0000]*|[A-Za-z0-9][A-Za-z0-9_.-]{0,127})$",
      description: "an absolute path without .., or the name of a volume",
    }),
  ),
  target: AbsolutePath,
  /** Whether the mount is read-only. Default: false. */
  read_only: Maybe(Type.Boolean()),
  /** Size of a tmpfs mount. Default: half of the memory. */
  size_bytes: Maybe(Type.Integer({ minimum: 4_096, maximum: Number.MAX_SAFE_INTEGER })),
});

const Device = Shape({
  host: Type.String({ maxLength: TEXT_MAX, pattern: "^/dev/(?!.*(?:^|/)\\.\\.(?:/|$))[^\\u0000]+$", description: "a path below /dev" }),
  /** Path of the device in the container. Default: the same path as on the robot. */
  container: Maybe(AbsolutePath),
  /** Permissions on the device. Default: rwm (read, write, make). */
  permissions: Maybe(Type.String({ pattern: "^(?!.*(.).*\\1)[rwm]{1,3}$", description: "some of the letters r, w and m" })),
});

const Http = Shape({
  /** URL of the health check, which the robot requests. Alternatively, `port` and `path` specify an address of the container. */
  url: Maybe(Type.String({ maxLength: 2_000, pattern: "^https?://[^\\s]+$", description: "an http or https address" })),
  port: Maybe(Port),
  /** Path of the health check. Default: /. */
  path: Maybe(Type.String({ maxLength: 2_000, pattern: "^/[^\\s]*$", description: "a path that begins with /" })),
  /** HTTP status of a healthy container. Default: 200. */
  expect_status: Maybe(Type.Integer({ minimum: 100, maximum: 599 })),
});

const Health = Shape(
  {
    http: Maybe(Http),
    /** Command that runs in the container. Exit code 0 means healthy. */
    command: Maybe(Argv),
    /** The container is healthy once a line of its output matches the pattern. */
    log: Maybe(Shape({ pattern: Type.String({ minLength: 1, maxLength: 500, description: "a regular expression" }) })),
  },
  { minProperties: 1, maxProperties: 1 },
);

const Ulimit = Shape({
  /** Soft limit of the resource; -1 means unlimited. */
  soft: Type.Integer({ minimum: -1, maximum: Number.MAX_SAFE_INTEGER }),
  hard: Type.Integer({ minimum: -1, maximum: Number.MAX_SAFE_INTEGER }),
});

export const ContainerManifest = Shape({
  /** Entrypoint of the container. Default: the entrypoint of the image. */
  entrypoint: Maybe(Argv),
  command: Maybe(Type.Array(Text, { maxItems: 256 })),
  env: Maybe(
    Type.Record(Type.String({ pattern: "^(?!ROAMFLEET_)[A-Za-z_][A-Za-z0-9_]{0,254}$" }), Text, {
      additionalProperties: false,
      maxProperties: 256,
      description: "environment variables and their values; names must not begin with ROAMFLEET_",
    }),
  ),
  ports: Maybe(Type.Array(PortMapping, { maxItems: 256 })),
  mounts: Maybe(Type.Array(Mount, { maxItems: 64 })),
  devices: Maybe(Type.Array(Device, { maxItems: 64 })),
  /** Whether the container shares the robot's network, as ROS requires. Default: false. */
  host_network: Maybe(Type.Boolean()),
  restart: Maybe(
    Shape({
      /** When the container is restarted after its exit. Default: always. */
      policy: Maybe(OneOf(CONTAINER_RESTART_POLICIES)),
      /** Maximum restarts with the policy on_failure. Default: unlimited. */
      max_retries: Maybe(Type.Integer({ minimum: 1, maximum: 1_000 })),
    }),
  ),
  limits: Maybe(
    Shape({
      memory_bytes: Maybe(Type.Integer({ minimum: 6 * 1024 * 1024, maximum: Number.MAX_SAFE_INTEGER })),
      /** Maximum number of processors that the container may use. It may be fractional. */
      cpus: Maybe(Type.Number({ minimum: 0.01, maximum: 1_024 })),
      /** Maximum number of processes and threads. */
      pids: Maybe(Type.Integer({ minimum: 1, maximum: 4_194_304 })),
    }),
  ),
  ulimits: Maybe(Shape(Object.fromEntries(CONTAINER_ULIMITS.map((name) => [name, Maybe(Ulimit)])))),
  health: Maybe(Health),
  /** Where the program serves its metrics in the text format of Prometheus. The port is the container's. Default path: /metrics. */
  metrics: Maybe(
    Shape({
      port: Port,
      path: Maybe(Type.String({ maxLength: 2_000, pattern: "^/[!-~]*$", description: "a path that begins with /" })),
    }),
  ),
  /**
   * How a container is replaced. after (default): the old container stops before the new one starts. beside: the old container stops after
   * the new one is verified.
   */
  replace: Maybe(OneOf(CONTAINER_REPLACE_MODES)),
  /** Seconds between SIGTERM and SIGKILL when the container is stopped. Default: 10. */
  stop_timeout_seconds: Maybe(Type.Integer({ minimum: 0, maximum: 600 })),
  /** How the container is notified of a new config. By default it is not notified and must watch the config file. */
  reload: Maybe(Shape({ signal: Maybe(OneOf(CONTAINER_RELOAD_SIGNALS)), command: Maybe(Argv) }, { minProperties: 1, maxProperties: 1 })),
});

type Ulimits = Partial<Record<(typeof CONTAINER_ULIMITS)[number], { soft: number; hard: number }>>;
export type ContainerManifest = Omit<Static<typeof ContainerManifest>, "ulimits"> & { ulimits?: Ulimits };
export type ContainerMount = Static<typeof Mount>;
