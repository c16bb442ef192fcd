import type { AgentConfig, ConfigFlags } from "./config.ts";
import { socketIn } from "./local/socket-path.ts";
import { STOP_TIMEOUT_SECONDS_MAX } from "./runtime/limits.ts";

/** The maximum stop timeout of a manifest, plus some time for the agent; after this systemd kills the remaining processes. */
const STOP_TIMEOUT_SECONDS = STOP_TIMEOUT_SECONDS_MAX + 60;

export interface UnitOptions {
  node: string;
  program: string;
  environment_file: string;
  /** User of the agent and its workloads; absent: root. */
  user?: string;
  /** Bundles may use sudo and other programs that change the user. */
  allow_new_privileges: boolean;
}

/** Returns the systemd unit that runs this program with this Node. */
export function unitText(config: AgentConfig, options: UnitOptions): string {
  const { environment_file } = options;
  return `[Unit]
Description=Roamfleet agent
Wants=network-online.target
After=network-online.target
# Restart without a limit: a robot has no operator at hand.
StartLimitIntervalSec=0

[Service]
${userLines(config, options)}ExecStart=${commandLine(config, options).map(unitWord).join(" ")}
EnvironmentFile=-${environment_file}
Restart=always
RestartSec=5
# Refused by the server, or invalid flags: a restart would fail again.
RestartPreventExitStatus=2 4
# The agent stops its workloads; remaining processes are killed after the timeout${config.keep_workloads ? " (not with --keep-workloads)" : ""}.
KillMode=${config.keep_workloads ? "process" : "mixed"}
TimeoutStopSec=${STOP_TIMEOUT_SECONDS}
# The agent restarts a workload that runs out of memory; this must not stop the agent.
OOMPolicy=continue
LimitNOFILE=65536
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

/**
 * Bundles are children of the agent and share its sandbox: a restriction on devices, directories or system calls would also apply to the programs
 * that drive the robot. So the only restrictions are the user, and those that affect only unprivileged processes.
 */
function userLines({ state_directory, local_api }: AgentConfig, { user, allow_new_privileges }: UnitOptions): string {
  if (user === undefined) return "";
  const group = local_api?.group;
  // Root changes the owner at each start; the contents already belong to the user.
  const make = ["/usr/bin/install", "-d", "-o", user, ...(group === undefined ? [] : ["-g", group])];
  const lines = [
    `User=${user}`,
    `ExecStartPre=+${[...make, "-m", group === undefined ? "0700" : "0710", state_directory].map(unitWord).join(" ")}`,
  ];
  if (group !== undefined) lines.push(`SupplementaryGroups=${group}`);
  if (!allow_new_privileges)
    lines.push("# No sudo and no setuid programs, also for bundles.", "NoNewPrivileges=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes");
  return `${lines.join("\n")}\n`;
}

const flag = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
const each = (name: string, values: readonly string[]): string[] => values.flatMap((value) => [name, value]);
const either = (name: string, is_set: boolean): string[] => (is_set ? [name] : []);

/** The command line of each flag of `rf-agent run`, as written in the unit: a flag that is missing here does not compile. */
const FLAG_WORDS: Record<keyof ConfigFlags, (config: AgentConfig) => string[]> = {
  server: ({ server }) => ["--server", server],
  state: ({ state_directory }) => ["--state", state_directory],
  config: ({ config_file }) => flag("--config", config_file),
  // It is in the environment file, which only root can read.
  enrollKey: () => [],
  name: ({ name }) => flag("--name", name),
  label: ({ labels }) =>
    each(
      "--label",
      Object.entries(labels).map(([key, value]) => `${key}=${value}`),
    ),
  allowFiles: ({ file_directories }) => each("--allow-files", file_directories),
  allowDevices: ({ allow_devices }) => either("--allow-devices", allow_devices),
  allowHostNetwork: ({ allow_host_network }) => either("--allow-host-network", allow_host_network),
  allowMounts: ({ mount_directories }) => each("--allow-mounts", mount_directories),
  // Several sockets: the default ones.
  containerSocket: ({ container_sockets: [first, ...more] }) => (more.length > 0 ? [] : ["--container-socket", first ?? "none"]),
  socket: ({ local_api, state_directory }) => (local_api?.socket === socketIn(state_directory) ? [] : flag("--socket", local_api?.socket)),
  socketGroup: ({ local_api }) => flag("--socket-group", local_api?.group),
  safeToUpdateCommand: ({ safe_to_update: gate }) => (gate && "command" in gate ? ["--safe-to-update-command", gate.command] : []),
  safeToUpdateUrl: ({ safe_to_update: gate }) => (gate && "url" in gate ? ["--safe-to-update-url", gate.url] : []),
  safeToUpdateTimeout: ({ safe_to_update: gate }) => (gate ? ["--safe-to-update-timeout", String(gate.timeout_ms / 1_000)] : []),
  logLevel: ({ log_level }) => ["--log-level", log_level],
  logSpoolMib: ({ log_spool_bytes_max }) => ["--log-spool-mib", String(log_spool_bytes_max / (1024 * 1024))],
  keepWorkloads: ({ keep_workloads }) => either("--keep-workloads", keep_workloads),
  allowInsecureHttp: ({ allow_insecure_http }) => either("--allow-insecure-http", allow_insecure_http),
  caFingerprint: ({ ca_fingerprint }) => flag("--ca-fingerprint", ca_fingerprint),
  caFile: ({ ca_file }) => flag("--ca-file", ca_file),
  trustOnFirstUse: ({ trust_on_first_use }) => either("--trust-on-first-use", trust_on_first_use),
  // For tests only.
  crashAtFailpoint: () => [],
};

const commandLine = (config: AgentConfig, { node, program }: UnitOptions): string[] => [
  node,
  program,
  "run",
  ...Object.values(FLAG_WORDS).flatMap((words) => words(config)),
];

/** Quotes one word of ExecStart, without expansion. */
function unitWord(word: string): string {
  const plain = word.replace(/%/g, "%%").replace(/\$/g, "$$$$");
  return /^[\w@:./=+%$-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}
