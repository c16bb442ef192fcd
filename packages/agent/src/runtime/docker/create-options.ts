import fs from "node:fs";
import path from "node:path";
import type { ContainerCreateOptions, MountSettings } from "dockerode";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { StepFailure } from "../failure.ts";
import { CONTAINER_LOG_BYTES_MAX } from "../limits.ts";
import type { ContainerSpec } from "./container-manifest.ts";
import { type HostPort, isWithin, LABELS } from "./containers.ts";
import type { AgentConfig, Logger } from "../../contract.ts";
import { errorText, makeDirectory } from "../../disk/write-atomically.ts";
import { socketIn } from "../../local/socket-path.ts";

interface CreateContext {
  app: string;
  release: DesiredRelease;
  spec: ContainerSpec;
  image_id: string;
  state_directory: string;
  configs_directory: string;
  mount_directories: readonly string[];
  allow_devices: boolean;
  allow_host_network: boolean;
  /** Sockets of container engines. They must not be mounted, since access to one gives full control of the robot. */
  engine_sockets: readonly string[];
  /** The mount of the agent's socket; undefined: the container has no access to the agent. */
  socket: SocketMount | undefined;
  /** Suffix of the container's name, which distinguishes containers of one app. */
  suffix: string;
}

const RESTART = { always: "unless-stopped", on_failure: "on-failure", never: "no" } as const;
const NANO = 1_000_000_000;

/** Returns the options for the engine. Throws StepFailure `rejected_by_robot` if the container requests something that the robot does not allow. */
export function createOptions(context: CreateContext): ContainerCreateOptions {
  const { app, release, spec, image_id, state_directory, suffix } = context;
  return {
    // The name is for people. The agent finds the container by its id.
    name: `roamfleet-${app}-${suffix}`,
    Image: image_id,
    ...(spec.entrypoint === null ? {} : { Entrypoint: spec.entrypoint }),
    ...(spec.command === null ? {} : { Cmd: spec.command }),
    Env: Object.entries({
      ...spec.env,
      ROAMFLEET_CONFIG_DIR: CONFIGS_INSIDE,
      ROAMFLEET_APP: app,
      ROAMFLEET_RELEASE: release.tag,
      ...(context.socket === undefined ? {} : { ROAMFLEET_SOCKET: context.socket.inside }),
    }).map(([name, content]) => `${name}=${content}`),
    Labels: {
      [LABELS.robot]: state_directory,
      [LABELS.app]: app,
      [LABELS.release_id]: release.id,
      [LABELS.release]: release.tag,
    },
    StopTimeout: Math.ceil(spec.stop_timeout_seconds),
    // Disable the engine's health checks, since the agent runs them itself. podman without systemd would never run them, and other engines
    // would run them a second time.
    Healthcheck: { Test: ["NONE"] },
    ExposedPorts: Object.fromEntries(spec.ports.map(({ container, protocol }) => [`${container}/${protocol}`, {}])),
    HostConfig: hostConfig(context),
  };
}

/**
 * Throws if the manifest requests devices or the host network and the robot does not allow that. Both give access to the robot outside the
 * container.
 */
function requireAllowed({ spec, allow_devices, allow_host_network }: CreateContext): void {
  const refuse = (field: string, flag: string): StepFailure =>
    new StepFailure("rejected_by_robot", `manifest: ${field} is refused: this robot does not allow it (${flag})`);
  if (spec.devices.length > 0 && !allow_devices) throw refuse("devices", "--allow-devices");
  if (spec.host_network && !allow_host_network) throw refuse("host_network", "--allow-host-network");
}

function hostConfig(context: CreateContext): NonNullable<ContainerCreateOptions["HostConfig"]> {
  requireAllowed(context);
  const { spec } = context;
  const { memory_bytes, cpus, pids } = spec.limits;
  return {
    RestartPolicy: {
      Name: RESTART[spec.restart.policy],
      ...(spec.restart.max_retries === null ? {} : { MaximumRetryCount: spec.restart.max_retries }),
    },
    ...(spec.host_network ? { NetworkMode: "host" } : {}),
    PortBindings: portBindings(spec),
    Binds: bindMounts(context),
    Mounts: context.spec.mounts.flatMap(({ type, source, target, read_only }) =>
      type !== "volume" || source === null ? [] : [volumeMount(context, source, target, read_only)],
    ),
    Tmpfs: Object.fromEntries(
      spec.mounts
        .filter(({ type }) => type === "tmpfs")
        .map(({ target, read_only, size_bytes }) => [target, tmpfsOptions(read_only, size_bytes)]),
    ),
    Devices: spec.devices.map(({ host, container, permissions }) => ({
      PathOnHost: host,
      PathInContainer: container,
      CgroupPermissions: permissions,
    })),
    Ulimits: spec.ulimits.map(({ name, soft, hard }) => ({ Name: name, Soft: soft, Hard: hard })),
    ...(memory_bytes === null ? {} : { Memory: memory_bytes }),
    ...(cpus === null ? {} : { NanoCpus: Math.round(cpus * NANO) }),
    ...(pids === null ? {} : { PidsLimit: pids }),
    // Set the log driver and its limit independently of the engine's default: the agent reads this log, and a robot's disk is small.
    LogConfig: { Type: "json-file", Config: { "max-size": String(CONTAINER_LOG_BYTES_MAX) } },
  };
}

function portBindings({ ports }: ContainerSpec): Record<string, { HostIp: string; HostPort: string }[]> {
  const bindings: Record<string, { HostIp: string; HostPort: string }[]> = {};
  for (const { container, host, host_address, protocol } of ports)
    (bindings[`${container}/${protocol}`] ??= []).push({ HostIp: host_address ?? "", HostPort: host === null ? "" : String(host) });
  return bindings;
}

const tmpfsOptions = (read_only: boolean, size_bytes: number | null): string =>
  [read_only ? "ro" : "rw", ...(size_bytes === null ? [] : [`size=${size_bytes}`])].join(",");

/**
 * Returns the mount of an app's volume. The volume's full name contains the app, since two apps may use the same volume name. Both parts
 * are separated by `Volume`: its capital letter cannot occur in app names, which may contain dots and dashes.
 */
function volumeMount({ app, state_directory }: CreateContext, source: string, Target: string, ReadOnly: boolean): MountSettings {
  return {
    Type: "volume",
    Source: `roamfleet.${app}.Volume.${source}`,
    Target,
    ReadOnly,
    VolumeOptions: {
      NoCopy: false,
      Labels: { [LABELS.robot]: state_directory, [LABELS.app]: app },
      DriverConfig: { Name: "local", Options: {} },
    },
  };
}

function bindMounts({ spec, state_directory, configs_directory, mount_directories, engine_sockets, socket }: CreateContext): string[] {
  const mounts = spec.mounts.flatMap(({ type, source, target, read_only }) => {
    if (type !== "bind" || source === null) return [];
    const from = allowedMount(source, mount_directories, [state_directory, ...engine_sockets]);
    if (from.includes(":") || target.includes(":")) throw new StepFailure("rejected_by_robot", `manifest: mount ${from} contains a colon`);
    return [`${from}:${target}${read_only ? ":ro" : ""}`];
  });
  // Mount the socket's directory instead of the socket itself, since a restarted agent creates a new socket file.
  const run = socket === undefined ? [] : [`${socket.directory}:${SOCKET_DIRECTORY_INSIDE}:ro`];
  return [...run, `${configs_directory}:${CONFIGS_INSIDE}:ro`, ...mounts];
}

/**
 * Returns the real path of a host directory that a container wants to mount. It must be one of `directories`, which the robot allows, or
 * below one: the server must not decide which host directories a container sees. Paths in `guarded`, and all paths above or below them, are
 * refused.
 */
export function allowedMount(source: string, directories: readonly string[], guarded: readonly string[] = []): string {
  const refuse = (why: string): StepFailure => new StepFailure("rejected_by_robot", `manifest: mount ${source} ${why}`);
  if (directories.length === 0) throw refuse("is refused: this robot allows no mounts of its directories (--allow-mounts)");
  if (!fs.existsSync(source)) throw refuse("does not exist on this robot");
  const real = fs.realpathSync(source);
  const resolved = (place: string): string => (fs.existsSync(place) ? fs.realpathSync(place) : place);
  if (!directories.some((directory) => isWithin(real, resolved(directory))))
    throw refuse("is not below a directory that this robot allows");
  if (guarded.map(resolved).some((place) => isWithin(place, real) || isWithin(real, place)))
    throw refuse("contains the agent's own state, or the socket of a container engine");
  return real;
}

/** Returns whether the container needs a host port that another container uses. */
export function portsClash({ ports }: ContainerSpec, taken: readonly HostPort[]): boolean {
  return ports.some(({ host, protocol }) => taken.some((other) => other.port === host && other.protocol === protocol));
}

/** Path inside containers at which the directory of the agent's socket is mounted. The configs are mounted inside that directory. */
const SOCKET_DIRECTORY_INSIDE = "/run/roamfleet";
const CONFIGS = "configs";
const CONFIGS_INSIDE = `${SOCKET_DIRECTORY_INSIDE}/${CONFIGS}`;

interface SocketMount {
  directory: string;
  inside: string;
}

interface SocketDirectoryOptions {
  config: Pick<AgentConfig, "state_directory" | "local_api">;
  log: Logger;
}

/**
 * Provides the directory of the agent's socket, which is mounted into containers. It must contain nothing but the socket and the configs.
 */
export class SocketDirectory {
  readonly #options: SocketDirectoryOptions;
  #told: string | undefined;

  constructor(options: SocketDirectoryOptions) {
    this.#options = options;
  }

  /**
   * Returns the directory to mount. Creates it if necessary, for example after a reboot that emptied it. Returns undefined if there is no
   * socket. Also returns undefined if the directory must not be mounted, and logs the reason once. Never throws.
   */
  prepare(): SocketMount | undefined {
    const { config, log } = this.#options;
    const socket = config.local_api?.socket;
    if (socket === undefined) return undefined;
    const directory = path.dirname(socket);
    const reason = whyNot(socket, directory, config.state_directory);
    if (reason === undefined) return { directory, inside: `${SOCKET_DIRECTORY_INSIDE}/${path.basename(socket)}` };
    if (reason !== this.#told) log.warn({ socket, reason }, "containers do not get the agent's socket");
    this.#told = reason;
    return undefined;
  }
}

function whyNot(socket: string, directory: string, state_directory: string): string | undefined {
  try {
    if (socket === socketIn(state_directory)) makeDirectory(directory);
    if (directory.includes(":")) return `${directory} contains a colon`;
    const other = fs.readdirSync(directory).find((name) => name !== path.basename(socket) && name !== CONFIGS);
    if (other !== undefined) return `${directory} contains other files too, such as ${other}`;
    // Create the mount point for the configs now. Later it is impossible, since the directory is mounted read-only.
    makeDirectory(path.join(directory, CONFIGS));
    const inside = fs.readdirSync(path.join(directory, CONFIGS))[0];
    return inside === undefined ? undefined : `${path.join(directory, CONFIGS)} is not empty`;
  } catch (error) {
    return errorText(error);
  }
}
