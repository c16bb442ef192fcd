import { dirname, resolve } from "node:path";
import { type AgentConfig, type ConfigFlags, readConfig } from "./config.ts";
import { makeDirectory, writeAtomically } from "./disk/write-atomically.ts";

const UNIT_PATH = "/etc/systemd/system/robofleet-agent.service";
const ENVIRONMENT_PATH = "/etc/robofleet/agent.env";
/** Workloads may take their time to stop; after this systemd kills what is left. */
const STOP_TIMEOUT_SECONDS = 60;

export interface InstallFlags extends ConfigFlags {
  write?: boolean;
}

/** Prints the unit, or writes it and its environment file (0600: it holds the enrolment key) and prints what to type next. */
export function install(flags: InstallFlags, print: (text: string) => void): void {
  const config = readConfig(flags);
  const unit = unitText(config, process.execPath, resolve(process.argv[1] ?? "rf-agent"));
  if (flags.write !== true) return print(unit);
  makeDirectory(dirname(ENVIRONMENT_PATH), 0o755);
  writeAtomically(ENVIRONMENT_PATH, environmentText(config), 0o600);
  writeAtomically(UNIT_PATH, unit, 0o644);
  print(`wrote ${UNIT_PATH} and ${ENVIRONMENT_PATH}\nnext: systemctl daemon-reload && systemctl enable --now robofleet-agent\n`);
}

/** The systemd unit that runs this program with this Node. */
export function unitText(config: AgentConfig, node: string, program: string): string {
  const words = [node, program, "run", "--server", config.server, "--state", config.state_directory];
  if (config.name !== undefined) words.push("--name", config.name);
  for (const [key, value] of Object.entries(config.labels)) words.push("--label", `${key}=${value}`);
  for (const directory of config.file_directories) words.push("--allow-files", directory);
  for (const directory of config.mount_directories) words.push("--allow-mounts", directory);
  // More than one: the default places.
  if (config.container_sockets.length < 2) words.push("--container-socket", config.container_sockets[0] ?? "none");
  if (config.keep_workloads) words.push("--keep-workloads");
  if (config.allow_insecure_http) words.push("--allow-insecure-http");
  if (config.ca_fingerprint !== undefined) words.push("--ca-fingerprint", config.ca_fingerprint);
  if (config.ca_file !== undefined) words.push("--ca-file", config.ca_file);
  if (config.trust_on_first_use) words.push("--trust-on-first-use");
  return `[Unit]
Description=Robofleet agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=${words.map(unitWord).join(" ")}
EnvironmentFile=-${ENVIRONMENT_PATH}
Restart=always
RestartSec=5
# The agent stops its workloads itself; what it leaves running is killed after the timeout${config.keep_workloads ? " (not with --keep-workloads)" : ""}.
KillMode=${config.keep_workloads ? "process" : "mixed"}
TimeoutStopSec=${STOP_TIMEOUT_SECONDS}
# Refused by the server or started wrongly: trying again changes nothing.
RestartPreventExitStatus=2 4

[Install]
WantedBy=multi-user.target
`;
}

function environmentText(config: AgentConfig): string {
  return config.enroll_key === undefined ? "" : `ROBOFLEET_ENROLL_KEY=${config.enroll_key}\n`;
}

/** One word of ExecStart: quoted, and nothing in it expands. */
function unitWord(word: string): string {
  const plain = word.replace(/%/g, "%%").replace(/\$/g, "$$$$");
  return /^[\w@:./=+%$-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}
