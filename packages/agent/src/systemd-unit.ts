import type { AgentConfig } from "./config.ts";
import { socketIn } from "./local/socket-path.ts";

/** Workloads may take their time to stop; after this systemd kills what is left. */
const STOP_TIMEOUT_SECONDS = 60;

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
Description=Robofleet agent
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

function commandLine(config: AgentConfig, { node, program }: UnitOptions): string[] {
  const { local_api, safe_to_update } = config;
  const words = [node, program, "run", "--server", config.server, "--state", config.state_directory];
  const add = (flag: string, value: string | undefined): void => void (value !== undefined && words.push(flag, value));
  add("--config", config.config_file);
  add("--name", config.name);
  for (const [key, value] of Object.entries(config.labels)) words.push("--label", `${key}=${value}`);
  for (const directory of config.file_directories) words.push("--allow-files", directory);
  for (const directory of config.mount_directories) words.push("--allow-mounts", directory);
  // More than one: the default places.
  if (config.container_sockets.length < 2) words.push("--container-socket", config.container_sockets[0] ?? "none");
  if (local_api?.socket !== socketIn(config.state_directory)) add("--socket", local_api?.socket);
  add("--socket-group", local_api?.group);
  if (safe_to_update !== undefined) {
    if ("command" in safe_to_update) words.push("--safe-to-update-command", safe_to_update.command);
    else words.push("--safe-to-update-url", safe_to_update.url);
    words.push("--safe-to-update-timeout", String(safe_to_update.timeout_ms / 1_000));
  }
  if (config.keep_workloads) words.push("--keep-workloads");
  if (config.allow_insecure_http) words.push("--allow-insecure-http");
  add("--ca-fingerprint", config.ca_fingerprint);
  add("--ca-file", config.ca_file);
  if (config.trust_on_first_use) words.push("--trust-on-first-use");
  return words;
}

/** One word of ExecStart: quoted, and nothing in it expands. */
function unitWord(word: string): string {
  const plain = word.replace(/%/g, "%%").replace(/\$/g, "$$$$");
  return /^[\w@:./=+%$-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}
