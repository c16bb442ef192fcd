import { statfsSync } from "node:fs";
import { resolve } from "node:path";
import { parseFingerprint } from "@roamfleet/protocol/authority";
import type { FailpointOptions } from "@roamfleet/clock/failpoint";
import { readRobotConfig } from "./config-file/read-robot-config.ts";
import { ROBOT_CONFIG_DEFAULT, type RobotConfig } from "./config-file/robot-config.ts";
import { TPM_MODES, type TpmMode } from "./identity/robot-key.ts";
import { SOCKET_PATH_BYTES_MAX, socketIn, stateDirectoryOf } from "./local/socket-path.ts";
import { isLoopback } from "./runtime/loopback.ts";
import { isVersion, type Launched } from "./self-update/launched.ts";
import { GATE_TIMEOUT_SECONDS_DEFAULT, GATE_TIMEOUT_SECONDS_MAX, type SafeToUpdate } from "./safety/permission.ts";

/** All settings of an agent from flags, environment and config file. Sizes in bytes. */
export interface AgentConfig {
  /** Origin and base path of the server, without a slash at the end. */
  server: string;
  /** Absolute path of the agent's state directory. */
  state_directory: string;
  /** Enrollment key, used once to enroll; absent on an enrolled robot. */
  enroll_key?: string;
  name?: string;
  labels: Record<string, string>;
  stop_workloads: boolean;
  allow_insecure_http: boolean;
  /** `sha256:…` of the server's certificate authority. Needed only if no public authority signed the server's certificate. */
  ca_fingerprint?: string;
  ca_file?: string;
  /** If true, the robot trusts and pins the certificate authority that the server presents at the first connection. */
  trust_on_first_use: boolean;
  log_level: string;
  log_spool_bytes_max: number;
  /**
   * Directory in memory (tmpfs) that survives the agent's process, from RUNTIME_DIRECTORY, which systemd sets. Absent: the agent keeps
   * everything in the state directory.
   */
  runtime_directory?: string;
  /** Absolute directories below which a `file` release may choose its own path. */
  file_directories: string[];
  /** Absolute host directories that containers may mount. */
  mount_directories: string[];
  /** Whether containers may use the robot's devices. */
  allow_devices: boolean;
  /** Whether containers may use the host network. */
  allow_host_network: boolean;
  /** Sockets of container engines. The first that answers is used; empty: this robot runs no containers. */
  container_sockets: string[];
  /** The socket for the robot's own software, and the group that may use it; absent: no socket. */
  local_api?: { socket: string; group?: string };
  /** The safe-to-update check, which runs before each update. Absent: updates are always allowed. */
  safe_to_update?: SafeToUpdate;
  robot: RobotConfig;
  /** Path of the config file, if named; absent: the default path. */
  config_file?: string;
  /**
   * Environment of the agent's children: the agent's own environment without the agent's settings. Workloads get only a part of it (see
   * `inheritedByWorkloads`).
   */
  workload_environment: Record<string, string>;
  /** Name of the user that programs of bundles run as; absent: the agent's user. */
  workload_user?: string;
  /** Where a robot without a key makes one. */
  tpm: TpmMode;
  /** Whether systemd started this agent as a service. */
  is_service?: boolean;
  /** Directory below which /proc, /sys and other system files are read; tests pass their own. */
  system_root: string;
  /** How the launcher started this agent; absent: another program did. */
  launched?: Launched;
  /**
   * The failpoint at which the agent crashes, and the log file that records the crash. For crash tests only; requires --crash-at-failpoint.
   */
  failpoint?: FailpointOptions;
  /**
   * True if the environment names a failpoint but --crash-at-failpoint is not set. The agent then ignores the failpoint and logs a warning.
   */
  failpoint_ignored?: boolean;
}

export const LOG_SPOOL_BYTES_DEFAULT = 64 * 1024 * 1024;
const LOG_SPOOL_BYTES_MIN = 256 * 1024;
const LOG_LEVELS_ALLOWED = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];

/** Names of users that are valid on Debian. Units and commands contain them without quotes. */
export const USER_NAME = /^[a-z_][a-z0-9_-]{0,31}$/;

/** An invalid flag or environment variable. The program prints it without a stack trace and exits with code 2. */
export class UsageError extends Error {}

/** Flags of the command line. For each absent flag, the environment variable is used. */
export interface ConfigFlags {
  config?: string;
  server?: string;
  enrollKey?: string;
  state?: string;
  name?: string;
  label?: string[];
  stopWorkloads?: boolean;
  allowInsecureHttp?: boolean;
  caFingerprint?: string;
  caFile?: string;
  trustOnFirstUse?: boolean;
  allowFiles?: string[];
  allowMounts?: string[];
  allowDevices?: boolean;
  allowHostNetwork?: boolean;
  containerSocket?: string;
  socket?: string;
  socketGroup?: string;
  workloadUser?: string;
  tpm?: string;
  safeToUpdateCommand?: string;
  safeToUpdateUrl?: string;
  safeToUpdateTimeout?: string;
  logLevel?: string;
  logSpoolMib?: string;
  crashAtFailpoint?: boolean;
}

/**
 * Reads the flags, the environment and the robot's config file (`--config` or ROAMFLEET_AGENT_CONFIG). `root` is the root directory of the
 * disk image that contains the file. Throws UsageError for an error in a flag or a variable. Throws ConfigFileError for an error in the
 * file: the service manager then restarts the agent, since the file can be corrected on the robot.
 */
export async function loadConfig(flags: ConfigFlags, env: NodeJS.ProcessEnv = process.env, root = "/"): Promise<AgentConfig> {
  const named = flags.config ?? env.ROAMFLEET_AGENT_CONFIG;
  const file = named ? resolve(named) : undefined;
  return { ...readConfig(flags, env, await readRobotConfig(file, root)), ...(file === undefined ? {} : { config_file: file }) };
}

/**
 * Reads flags, then the environment: ROAMFLEET_SERVER, ROAMFLEET_ENROLL_KEY, ROAMFLEET_STATE, ROAMFLEET_ROBOT_NAME, ROAMFLEET_ROBOT_LABELS,
 * ROAMFLEET_CA_FINGERPRINT, ROAMFLEET_ALLOW_DEVICES, ROAMFLEET_ALLOW_HOST_NETWORK, ROAMFLEET_CONTAINER_SOCKET, ROAMFLEET_AGENT_LOG_LEVEL,
 * ROAMFLEET_SOCKET_GROUP, ROAMFLEET_WORKLOAD_USER, ROAMFLEET_TPM, ROAMFLEET_SAFE_TO_UPDATE_COMMAND, ROAMFLEET_SAFE_TO_UPDATE_URL,
 * ROAMFLEET_SAFE_TO_UPDATE_TIMEOUT. `robot`: the parsed config file. Throws UsageError for a missing or malformed setting.
 */
export function readConfig(
  flags: ConfigFlags,
  env: NodeJS.ProcessEnv = process.env,
  robot: RobotConfig = ROBOT_CONFIG_DEFAULT,
): AgentConfig {
  const server = flags.server ?? env.ROAMFLEET_SERVER;
  if (!server) throw new UsageError("the server is required: pass --server URL or set ROAMFLEET_SERVER");
  const state = flags.state ?? env.ROAMFLEET_STATE;
  if (!state) throw new UsageError("the state directory is required: pass --state DIR or set ROAMFLEET_STATE");
  const allow_insecure_http = flags.allowInsecureHttp ?? false;
  const enroll_key = flags.enrollKey ?? env.ROAMFLEET_ENROLL_KEY;
  const name = flags.name ?? env.ROAMFLEET_ROBOT_NAME;
  const log_level = flags.logLevel ?? env.ROAMFLEET_AGENT_LOG_LEVEL ?? "info";
  if (!LOG_LEVELS_ALLOWED.includes(log_level))
    throw new UsageError(`--log-level must be one of ${LOG_LEVELS_ALLOWED.join(", ")}, not "${log_level}"`);
  return {
    server: parseServer(server, allow_insecure_http),
    state_directory: resolve(state),
    ...(enroll_key ? { enroll_key } : {}),
    ...(name ? { name } : {}),
    labels: parseLabels(flags.label ?? env.ROAMFLEET_ROBOT_LABELS?.split(",").filter(Boolean) ?? []),
    stop_workloads: flags.stopWorkloads ?? false,
    allow_insecure_http,
    ...runtimeDirectory(env),
    ...readAuthority(flags, env),
    trust_on_first_use: flags.trustOnFirstUse ?? false,
    log_level,
    log_spool_bytes_max: parseSpoolBytes(flags.logSpoolMib),
    file_directories: (flags.allowFiles ?? []).map((directory) => resolve(directory)),
    mount_directories: (flags.allowMounts ?? []).map((directory) => resolve(directory)),
    allow_devices: flags.allowDevices ?? onOff("ROAMFLEET_ALLOW_DEVICES", env.ROAMFLEET_ALLOW_DEVICES) ?? robot.containers.devices,
    allow_host_network:
      flags.allowHostNetwork ?? onOff("ROAMFLEET_ALLOW_HOST_NETWORK", env.ROAMFLEET_ALLOW_HOST_NETWORK) ?? robot.containers.host_network,
    container_sockets: containerSockets(flags.containerSocket ?? env.ROAMFLEET_CONTAINER_SOCKET, env),
    local_api: localApi(flags, env, resolve(state)),
    ...safeToUpdate(flags, env),
    robot,
    ...readLaunched(env),
    workload_environment: workloadEnvironment(env),
    ...workloadUser(flags.workloadUser ?? env.ROAMFLEET_WORKLOAD_USER),
    tpm: tpmMode(flags.tpm ?? env.ROAMFLEET_TPM),
    is_service: env.INVOCATION_ID !== undefined,
    system_root: "/",
    ...(flags.crashAtFailpoint === true ? { failpoint: readFailpoint(env) } : {}),
    failpoint_ignored: flags.crashAtFailpoint !== true && Boolean(env.ROAMFLEET_FAILPOINT),
  };
}

/** statfs type of tmpfs. */
const TMPFS = 0x01021994;

/** Returns the first directory of RUNTIME_DIRECTORY if it is in memory. */
function runtimeDirectory({ RUNTIME_DIRECTORY }: NodeJS.ProcessEnv): Pick<AgentConfig, "runtime_directory"> {
  const [directory] = (RUNTIME_DIRECTORY ?? "").split(":");
  if (!directory) return {};
  try {
    return statfsSync(directory).type === TMPFS ? { runtime_directory: resolve(directory) } : {};
  } catch {
    return {};
  }
}

function onOff(name: string, text: string | undefined): boolean | undefined {
  if (!text) return undefined;
  if (["on", "true", "1"].includes(text)) return true;
  if (["off", "false", "0"].includes(text)) return false;
  throw new UsageError(`${name} must be on or off, not "${text}"`);
}

const CONTAINER_SOCKETS = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/**
 * Returns the sockets of container engines to try. `none` means no containers. If not set, returns the default sockets of dockerd and
 * podman, including the user's own.
 */
function containerSockets(text: string | undefined, env: NodeJS.ProcessEnv): string[] {
  if (text === "none") return [];
  const socket = text?.replace(/^unix:\/\//, "");
  if (socket?.includes("://")) throw new UsageError(`--container-socket must be the path of a unix socket, or none, not "${text}"`);
  if (socket) return [resolve(socket)];
  return [...CONTAINER_SOCKETS, ...(env.XDG_RUNTIME_DIR ? [resolve(env.XDG_RUNTIME_DIR, "podman/podman.sock")] : [])];
}

function workloadUser(name: string | undefined): Pick<AgentConfig, "workload_user"> {
  if (!name) return {};
  if (!USER_NAME.test(name)) throw new UsageError(`--workload-user must be the name of a user, not "${name}"`);
  return { workload_user: name };
}

function tpmMode(text: string | undefined): TpmMode {
  const mode = text || "auto";
  if (mode !== "auto" && mode !== "required" && mode !== "off")
    throw new UsageError(`--tpm must be ${TPM_MODES.slice(0, -1).join(", ")} or ${TPM_MODES.at(-1)}, not "${mode}"`);
  return mode;
}

function localApi(flags: ConfigFlags, env: NodeJS.ProcessEnv, state: string): NonNullable<AgentConfig["local_api"]> {
  const socket = flags.socket === undefined ? socketIn(state) : resolve(flags.socket);
  const group = flags.socketGroup ?? env.ROAMFLEET_SOCKET_GROUP;
  const bytes = Buffer.byteLength(socket);
  if (bytes > SOCKET_PATH_BYTES_MAX)
    throw new UsageError(
      `the path of the agent's socket is too long (${bytes} bytes; a unix socket's path has at most ${SOCKET_PATH_BYTES_MAX}): ` +
        `use a shorter --state, or set a shorter path with --socket (now ${socket})`,
    );
  return { socket, ...(group ? { group } : {}) };
}

/** State directory of the installed packages. Commands without `--state` use it. */
const STATE_DIRECTORY_DEFAULT = "/var/lib/roamfleet-agent";

/**
 * Returns the socket and the state directory of the agent that a local command calls. Reads the flags, then ROAMFLEET_SOCKET (set for
 * workloads) and ROAMFLEET_STATE. The state directory is undefined if only a socket is named and it is not at the default path, for example
 * in a container.
 */
export function readClientPlace(
  flags: Pick<ConfigFlags, "socket" | "state">,
  env: NodeJS.ProcessEnv = process.env,
): { socket: string; state_directory: string | undefined } {
  const state = flags.state ?? (env.ROAMFLEET_STATE || undefined);
  const socket = flags.socket ?? (flags.state === undefined ? env.ROAMFLEET_SOCKET : undefined);
  if (!socket) {
    const state_directory = resolve(state ?? STATE_DIRECTORY_DEFAULT);
    return { socket: socketIn(state_directory), state_directory };
  }
  const place = resolve(socket);
  return { socket: place, state_directory: state === undefined ? stateDirectoryOf(place) : resolve(state) };
}

/** Reads the flags of `rf-agent stop-workloads`: the state directory, and the sockets of the container engines. */
export function readWorkloadPlace(
  flags: Pick<ConfigFlags, "state" | "containerSocket">,
  env: NodeJS.ProcessEnv = process.env,
): Pick<AgentConfig, "state_directory" | "container_sockets"> {
  return {
    state_directory: resolve(flags.state ?? (env.ROAMFLEET_STATE || STATE_DIRECTORY_DEFAULT)),
    container_sockets: containerSockets(flags.containerSocket ?? env.ROAMFLEET_CONTAINER_SOCKET, env),
  };
}

function safeToUpdate(flags: ConfigFlags, env: NodeJS.ProcessEnv): Pick<AgentConfig, "safe_to_update"> {
  const command = flags.safeToUpdateCommand ?? env.ROAMFLEET_SAFE_TO_UPDATE_COMMAND;
  const url = flags.safeToUpdateUrl ?? env.ROAMFLEET_SAFE_TO_UPDATE_URL;
  const seconds = Number(flags.safeToUpdateTimeout ?? env.ROAMFLEET_SAFE_TO_UPDATE_TIMEOUT ?? GATE_TIMEOUT_SECONDS_DEFAULT);
  if (!(seconds > 0 && seconds <= GATE_TIMEOUT_SECONDS_MAX))
    throw new UsageError(`--safe-to-update-timeout must be a number of seconds, at most ${GATE_TIMEOUT_SECONDS_MAX}`);
  const timeout_ms = seconds * 1_000;
  if (command && url) throw new UsageError("--safe-to-update-command and --safe-to-update-url cannot be used together");
  if (command) return { safe_to_update: { command, timeout_ms } };
  if (!url) return {};
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new UsageError(`--safe-to-update-url must be an http or https address, not "${url}"`);
  return { safe_to_update: { url, timeout_ms } };
}

/** Reads the variables that the launcher sets. */
function readLaunched(env: NodeJS.ProcessEnv): Pick<AgentConfig, "launched"> {
  const { ROAMFLEET_AGENT_ROOT: root, ROAMFLEET_AGENT_LAUNCHED: version, ROAMFLEET_AGENT_RUN: run_directory } = env;
  const launcher_pid = Number(env.ROAMFLEET_LAUNCHER_PID);
  if (!root || !run_directory || !isVersion(version) || !Number.isSafeInteger(launcher_pid)) return {};
  return { launched: { root, version, run_directory, launcher_pid } };
}

function readFailpoint({ ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log_file }: NodeJS.ProcessEnv): FailpointOptions {
  if (!spec || !log_file)
    throw new UsageError(
      "--crash-at-failpoint is for tests: it needs ROAMFLEET_FAILPOINT=NAME, and ROAMFLEET_FAILPOINT_LOG=FILE to record the crash",
    );
  return { spec, log_file };
}

function readAuthority(flags: ConfigFlags, env: NodeJS.ProcessEnv): Pick<AgentConfig, "ca_fingerprint" | "ca_file"> {
  const text = flags.caFingerprint ?? (env.ROAMFLEET_CA_FINGERPRINT || undefined);
  const fingerprint = text === undefined ? undefined : parseFingerprint(text);
  if (text !== undefined && fingerprint === undefined)
    throw new UsageError(`--ca-fingerprint must be sha256: and 64 hex digits, as \`roamfleet fingerprint\` prints them, not "${text}"`);
  return {
    ...(fingerprint === undefined ? {} : { ca_fingerprint: fingerprint }),
    ...(flags.caFile === undefined ? {} : { ca_file: resolve(flags.caFile) }),
  };
}

/** Returns the address without a trailing slash; refuses plain http to another machine unless it is allowed. */
export function parseServer(text: string, allow_insecure_http: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new UsageError(`--server must be an http or https address such as https://fleet.example.com, not "${text}"`);
  }
  if (url.username || url.password || url.search || url.hash)
    throw new UsageError("--server must not contain a user, a query or a fragment");
  if (url.protocol === "http:" && !allow_insecure_http && !isLoopback(url.hostname)) {
    throw new UsageError(
      `${url.origin} is plain http to another machine: anyone on the network path could read and change what this robot runs. ` +
        "Use https, or pass --allow-insecure-http if the network is trusted",
    );
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

export function parseLabels(pairs: readonly string[]): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    if (at <= 0) throw new UsageError(`--label must be key=value, not "${pair}"`);
    labels[pair.slice(0, at)] = pair.slice(at + 1);
  }
  return labels;
}

function parseSpoolBytes(mib: string | undefined): number {
  if (mib === undefined) return LOG_SPOOL_BYTES_DEFAULT;
  const bytes = Math.floor(Number(mib) * 1024 * 1024);
  if (!Number.isSafeInteger(bytes) || bytes < LOG_SPOOL_BYTES_MIN)
    throw new UsageError(`--log-spool-mib must be a number of at least 0.25, not "${mib}"`);
  return bytes;
}

/** Returns whether systemd or the launcher set the variable for the agent's own process. The launcher keeps an operator's MALLOC_ARENA_MAX. */
function isForTheAgent(key: string, value: string): boolean {
  return key === "RUNTIME_DIRECTORY" || (key === "MALLOC_ARENA_MAX" && value === "1");
}

/** Returns the machine's environment without the agent's settings, such as the enrollment key. */
function workloadEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const inherited: Record<string, string> = {};
  for (const [key, value] of Object.entries(env)) {
    if (value === undefined || key.startsWith("ROAMFLEET_") || key.startsWith("NODE_") || isForTheAgent(key, value)) continue;
    inherited[key] = value;
  }
  return inherited;
}
