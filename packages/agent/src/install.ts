import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { type AgentConfig, type ConfigFlags, loadConfig, USER_NAME, UsageError } from "./config.ts";
import { makeDirectory, removeDurably, writeAtomically } from "./disk/write-atomically.ts";
import { socketIn } from "./local/socket-path.ts";
import { BOOTED_BY_SYSTEMD } from "./runtime/hosts/scope.ts";
import { STOP_TIMEOUT_SECONDS_MAX } from "./runtime/limits.ts";

const SERVICE = "roamfleet-agent";
const UNIT_PATH = `/etc/systemd/system/${SERVICE}.service`;
const ENVIRONMENT_PATH = "/etc/roamfleet/agent.env";
const SYSTEMCTL_TIMEOUT_MS = 120_000;

export interface PlaceFlags {
  /** If true, only prints what would be done. */
  dryRun?: boolean;
  /** Root directory of a disk image to install into, instead of `/`. Services are then neither started nor stopped. */
  root?: string;
}

/** Paths of Node and the agent on the robot; absent: those of this process. */
interface ProgramFlags {
  node?: string;
  program?: string;
}

export interface InstallFlags extends ConfigFlags, PlaceFlags, ProgramFlags, UnitFlags {}

interface UnitFlags {
  user?: string;
  allowNewPrivileges?: boolean;
}

type Print = (text: string) => void;

/**
 * Writes the systemd unit and its environment file, and prints the next commands. The environment file has mode 0600, since it contains the
 * enrollment key. With `dryRun`, only prints the unit.
 */
export async function install(flags: InstallFlags, print: Print): Promise<void> {
  const config = await loadConfig(flags, undefined, flags.root);
  if (flags.user !== undefined) requireParentsOfRoot(config.state_directory, flags.root);
  const unit = unitText(config, { ...programOf(flags), environment_file: ENVIRONMENT_PATH, ...unitOptions(flags) });
  if (flags.dryRun === true) return print(unit);
  const { unit_path, environment_path } = places(flags);
  makeDirectory(dirname(environment_path), 0o755);
  writeAtomically(environment_path, config.enroll_key === undefined ? "" : `ROAMFLEET_ENROLL_KEY=${config.enroll_key}\n`, 0o600);
  makeDirectory(dirname(unit_path), 0o755);
  writeAtomically(unit_path, unit, 0o644);
  print(`wrote ${unit_path} and ${environment_path}\n`);
  if (flags.root === undefined) print(`next: systemctl daemon-reload && systemctl enable --now ${SERVICE}\n`);
}

/**
 * Returns the paths of Node and the agent as the robot sees them. For a disk image, they are relative to the image's root, since paths of
 * the build machine are not valid on the robot. Throws UsageError for a path that the image does not contain.
 */
function programOf({
  root,
  node = process.execPath,
  program = resolve(process.argv[1] ?? "rf-agent"),
}: InstallFlags): Record<"node" | "program", string> {
  const onRobot = (option: string, file: string): string => {
    if (root === undefined) return resolve(file);
    const image = resolve(root);
    if (!isAbsolute(file)) throw new UsageError(`${option} must be an absolute path, not "${file}"`);
    const inside = file.startsWith(join(image, "/")) ? file.slice(image.length) : file;
    if (existsSync(join(image, inside))) return inside;
    throw new UsageError(
      `the image at ${image} has no ${inside}: put the agent into the image first, or pass the path on the robot with ${option}`,
    );
  };
  return { node: onRobot("--node", node), program: onRobot("--program", program) };
}

function unitOptions({ user, allowNewPrivileges }: UnitFlags): Pick<UnitOptions, "user" | "allow_new_privileges"> {
  if (user !== undefined && !USER_NAME.test(user)) throw new UsageError(`--user must be the name of a user, not "${user}"`);
  return { ...(user === undefined ? {} : { user }), allow_new_privileges: allowNewPrivileges ?? false };
}

/**
 * Throws UsageError unless every directory above the state directory belongs to root and others cannot write to it. Root changes the owner
 * of the state directory at each start. A user who controls a directory above it could replace it by a link to any other directory. Missing
 * directories are allowed: root creates them.
 */
export function requireParentsOfRoot(state_directory: string, root = "/"): void {
  const above = (place: string): string[] => (place === dirname(place) ? [place] : [...above(dirname(place)), place]);
  const image = resolve(root);
  const named = above(dirname(state_directory))
    .map((place) => join(image, place))
    .filter((place) => existsSync(place));
  const real = realpathSync(named.at(-1) ?? "/");
  const inside =
    real === image || real.startsWith(join(image, "/")) ? above(real).filter((place) => place.length >= image.length) : above(real);
  const open = [...named, ...inside].find((place) => {
    const { uid, mode } = lstatSync(place);
    return place !== image && (uid !== 0 || (mode & 0o170_002) === 0o040_002);
  });
  if (open !== undefined)
    throw new UsageError(
      `with --user, every directory above the state directory must belong to root and must not be writable by other users, but ${open} does not meet this: use --state /var/lib/roamfleet-agent`,
    );
}

const places = ({ root = "/" }: PlaceFlags): { unit_path: string; environment_path: string } => ({
  unit_path: join(resolve(root), UNIT_PATH),
  environment_path: join(resolve(root), ENVIRONMENT_PATH),
});

/** Stops the service and removes the files that `install` wrote. Keeps the state directory, which contains the robot's identity. */
export function uninstall(flags: PlaceFlags, print: Print): void {
  const { unit_path, environment_path } = places(flags);
  const booted = flags.root === undefined && existsSync(BOOTED_BY_SYSTEMD);
  const there = [unit_path, environment_path].filter((file) => existsSync(file));
  if (flags.dryRun === true) {
    if (booted) print(`would run systemctl disable --now ${SERVICE}\n`);
    for (const file of there) print(`would remove ${file}\n`);
    return;
  }
  if (booted && there.includes(unit_path)) systemctl("disable", "--now", SERVICE);
  for (const file of there) {
    removeDurably(file);
    print(`removed ${file}\n`);
  }
  if (booted) systemctl("daemon-reload");
  if (there.length === 0) print("nothing was installed\n");
  else print("the state directory is kept; to delete the robot's identity, remove it\n");
}

function systemctl(...words: string[]): void {
  const { status, stderr, error } = spawnSync("systemctl", words, { encoding: "utf8", timeout: SYSTEMCTL_TIMEOUT_MS });
  if (status !== 0) throw new Error(`systemctl ${words.join(" ")} failed: ${error?.message ?? stderr.trim()}`);
}

/** Seconds after which systemd kills the remaining processes: the longest stop timeout that a manifest may set, plus 60 s for the agent. */
const STOP_TIMEOUT_SECONDS = STOP_TIMEOUT_SECONDS_MAX + 60;

interface UnitOptions {
  node: string;
  program: string;
  environment_file: string;
  /** User that the agent and its workloads run as; absent: root. */
  user?: string;
  /** Whether bundles may use sudo and other programs that change the user. */
  allow_new_privileges: boolean;
}

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
${stopLines(config)}
# systemd counts programs without a scope as part of this service. If one runs out of memory, the agent must not stop: it restarts the program.
OOMPolicy=continue
LimitNOFILE=65536
# Log records wait in memory here for their acknowledgement, instead of on the flash, and survive a restart of the agent.
RuntimeDirectory=roamfleet-agent
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

const stopLines = ({ stop_workloads }: AgentConfig): string =>
  stop_workloads
    ? `# The agent stops its workloads; remaining processes are killed after the timeout.\nKillMode=mixed\nTimeoutStopSec=${STOP_TIMEOUT_SECONDS}`
    : "# Only the agent stops: its workloads keep running, and the next agent supervises them.\nKillMode=process\nTimeoutStopSec=90";

/**
 * Returns the lines of the systemd unit for an agent that does not run as root. They set the user and limit the rights of unprivileged
 * processes, and nothing else. Bundles are children of the agent and share its sandbox. So limits on devices, directories or system calls
 * would also affect the programs that drive the robot.
 */
function userLines({ state_directory, local_api }: AgentConfig, { user, allow_new_privileges }: UnitOptions): string {
  if (user === undefined) return "";
  const group = local_api?.group;
  // At each start, root sets only the owner of the directory itself. Its contents already belong to the user.
  const make = ["/usr/bin/install", "-d", "-o", user, ...(group === undefined ? [] : ["-g", group])];
  const lines = [
    `User=${user}`,
    `ExecStartPre=+${[...make, "-m", group === undefined ? "0700" : "0710", state_directory].map(unitWord).join(" ")}`,
  ];
  if (group !== undefined) lines.push(`SupplementaryGroups=${group}`);
  if (!allow_new_privileges)
    lines.push(
      "# Neither the agent nor its bundles can use sudo or setuid programs.",
      "NoNewPrivileges=yes",
      "RestrictSUIDSGID=yes",
      "LockPersonality=yes",
    );
  return `${lines.join("\n")}\n`;
}

const flag = (name: string, value: string | undefined): string[] => (value === undefined ? [] : [name, value]);
const each = (name: string, values: readonly string[]): string[] => values.flatMap((value) => [name, value]);
const either = (name: string, is_set: boolean): string[] => (is_set ? [name] : []);

/**
 * For each flag of `rf-agent run`: a function that returns the flag's words for the unit's command line. The type requires an entry for
 * every flag, so a forgotten flag does not compile.
 */
const FLAG_WORDS: Record<keyof ConfigFlags, (config: AgentConfig) => string[]> = {
  server: ({ server }) => ["--server", server],
  state: ({ state_directory }) => ["--state", state_directory],
  config: ({ config_file }) => flag("--config", config_file),
  // The enrollment key is in the environment file, which only root can read.
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
  // Several sockets are the default ones, so no flag is needed.
  containerSocket: ({ container_sockets: [first, ...more] }) => (more.length > 0 ? [] : ["--container-socket", first ?? "none"]),
  socket: ({ local_api, state_directory }) => (local_api?.socket === socketIn(state_directory) ? [] : flag("--socket", local_api?.socket)),
  socketGroup: ({ local_api }) => flag("--socket-group", local_api?.group),
  tpm: ({ tpm }) => (tpm === "auto" ? [] : ["--tpm", tpm]),
  workloadUser: ({ workload_user }) => flag("--workload-user", workload_user),
  safeToUpdateCommand: ({ safe_to_update: gate }) => (gate && "command" in gate ? ["--safe-to-update-command", gate.command] : []),
  safeToUpdateUrl: ({ safe_to_update: gate }) => (gate && "url" in gate ? ["--safe-to-update-url", gate.url] : []),
  safeToUpdateTimeout: ({ safe_to_update: gate }) => (gate ? ["--safe-to-update-timeout", String(gate.timeout_ms / 1_000)] : []),
  logLevel: ({ log_level }) => ["--log-level", log_level],
  logSpoolMib: ({ log_spool_bytes_max }) => ["--log-spool-mib", String(log_spool_bytes_max / (1024 * 1024))],
  stopWorkloads: ({ stop_workloads }) => either("--stop-workloads", stop_workloads),
  allowInsecureHttp: ({ allow_insecure_http }) => either("--allow-insecure-http", allow_insecure_http),
  caFingerprint: ({ ca_fingerprint }) => flag("--ca-fingerprint", ca_fingerprint),
  caFile: ({ ca_file }) => flag("--ca-file", ca_file),
  trustOnFirstUse: ({ trust_on_first_use }) => either("--trust-on-first-use", trust_on_first_use),
  // This flag is for tests only, so it is never in the unit.
  crashAtFailpoint: () => [],
};

const commandLine = (config: AgentConfig, { node, program }: UnitOptions): string[] => [
  node,
  program,
  "run",
  ...Object.values(FLAG_WORDS).flatMap((words) => words(config)),
];

/** Quotes one word of ExecStart, and escapes `%` and `$`, which systemd would expand. */
function unitWord(word: string): string {
  const plain = word.replace(/%/g, "%%").replace(/\$/g, "$$$$");
  return /^[\w@:./=+%$-]+$/.test(plain) ? plain : `"${plain.replace(/[\\"]/g, "\\$&").replace(/\n/g, "\\n")}"`;
}
