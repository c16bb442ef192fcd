import type { AgentConfig, ConfigFlags } from "./config.ts";
import { socketIn } from "./local/socket-path.ts";
import { STOP_TIMEOUT_SECONDS_MAX } from "./runtime/limits.ts";

/** A workload may take as long to stop as its manifest may say, and the agent a little longer; after this systemd kills what is left. */
const STOP_TIMEOUT_SECONDS = STOP_TIMEOUT_SECONDS_MAX + 60;

export interface UnitOptions {
  node: string;
  program: string;
  environment_file: string;
  /** Who the agent and its workloads run as; root, if absent. */
  user?: string;
  /** Bundles may use sudo and other programs that change the user. */
  allow_new_privileges: boolean;
}

/** The systemd unit that runs this program with this Node. */
export function unitText(config: AgentConfig, options: UnitOptions): string {
  const { environment_file } = options;
  return `[Unit]
Description=Roamfleet agent
Wants=network-online.target
After=network-online.target
# A robot has nobody who starts it again.
StartLimitIntervalSec=0

[Service]
${userLines(config, options)}ExecStart=${commandLine(config, options).map(unitWord).join(" ")}
EnvironmentFile=-${environment_file}
Restart=always
RestartSec=5
# Refused by the server or started wrongly: trying again changes nothing.
RestartPreventExitStatus=2 4
# The agent stops its workloads itself; what it leaves running is killed after the timeout${config.keep_workloads ? " (not with --keep-workloads)" : ""}.
KillMode=${config.keep_workloads ? "process" : "mixed"}
TimeoutStopSec=${STOP_TIMEOUT_SECONDS}
# A workload that runs out of memory is the agent's to start again, not a reason to stop the agent.
OOMPolicy=continue
LimitNOFILE=65536
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

/**
 * Bundles are the agent's children and live behind the same fences: whatever hides devices, directories or system calls from it
 * hides them from what drives the robot. So the fence is the user, and what follows for whoever is no root anyway.
 */
function userLines({ state_directory, local_api }: AgentConfig, { user, allow_new_privileges }: UnitOptions): string {
  if (user === undefined) return "";
  const group = local_api?.group;
  // Given by root at each start; what is in it is the user's already.
  const make = ["/usr/bin/install", "-d", "-o", user, ...(group === undefined ? [] : ["-g", group])];
  const lines = [
    `User=${user}`,
    `ExecStartPre=+${[...make, "-m", group === undefined ? "0700" : "0710", state_directory].map(unitWord).join(" ")}`,
  ];
  if (group !== undefined) lines.push(`SupplementaryGroups=${group}`);
  if (!allow_new_privileges)
    lines.push("# No sudo, no setuid programs, for bundles neither.", "NoNewPrivileges=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes");
  return `${lines.join("\n")}\n`;
}

const flag = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
const each = (name: string, values: readonly string[]): string[] => values.flatMap((value) => [name, value]);
const either = (name: string, is_set: boolean): string[] => (is_set ? [name] : []);

/** The words of each flag of `rf-agent run`, as the unit repeats it: a flag that is missing here does not compile. */
const FLAG_WORDS: Record<keyof ConfigFlags, (config: AgentConfig) => string[]> = {
  server: ({ server }) => ["--server", server],
  state: ({ state_directory }) => ["--state", state_directory],
  config: ({ config_file }) => flag("--config", config_file),
  // In the environment file, which only root can read.
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
  // More than one: the default places.
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

/** One word of ExecStart: quoted, and nothing in it expands. */
function unitWord(word: string): string {
  const plain = word.replace(/%/g, "%%").replace(/\$/g, "$$$$");
  return /^[\w@:./=+%$-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}
