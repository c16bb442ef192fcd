import { spawnSync } from "node:child_process";
import { existsSync, lstatSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { type AgentConfig, type ConfigFlags, loadConfig, UsageError } from "./config.ts";
import { makeDirectory, removeDurably, writeAtomically } from "./disk/write-atomically.ts";
import { type UnitOptions, unitText } from "./systemd-unit.ts";

const SERVICE = "roamfleet-agent";
const UNIT_PATH = `/etc/systemd/system/${SERVICE}.service`;
export const ENVIRONMENT_PATH = "/etc/roamfleet/agent.env";
/** Exists if systemd is running and `systemctl` can reach it. */
const BOOTED_BY_SYSTEMD = "/run/systemd/system";
const SYSTEMCTL_TIMEOUT_MS = 120_000;

export interface PlaceFlags {
  /** Prints what would be done. */
  dryRun?: boolean;
  /** Works below this directory, for a disk image: nothing is started or stopped. */
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

/** Writes the unit and its environment file (mode 0600: it contains the enrollment key) and prints the next commands; or prints the unit. */
export async function install(flags: InstallFlags, print: Print): Promise<void> {
  const config = await loadConfig(flags, undefined, flags.root);
  if (flags.user !== undefined) requireParentsOfRoot(config.state_directory, flags.root);
  const unit = unitText(config, { ...programOf(flags), environment_file: ENVIRONMENT_PATH, ...unitOptions(flags) });
  if (flags.dryRun === true) return print(unit);
  const { unit_path, environment_path } = places(flags);
  makeDirectory(dirname(environment_path), 0o755);
  writeAtomically(environment_path, environmentText(config), 0o600);
  makeDirectory(dirname(unit_path), 0o755);
  writeAtomically(unit_path, unit, 0o644);
  print(`wrote ${unit_path} and ${environment_path}\n`);
  if (flags.root === undefined) print(`next: systemctl daemon-reload && systemctl enable --now ${SERVICE}\n`);
}

/**
 * Returns the paths of Node and the agent on the robot. In an image they are below its root: a path of the machine that builds the image is not valid
 * on the robot. Throws UsageError for a path that the image does not contain.
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
      `the image at ${image} has no ${inside}: put the agent into the image first, or name the robot's own path with ${option}`,
    );
  };
  return { node: onRobot("--node", node), program: onRobot("--program", program) };
}

function unitOptions({ user, allowNewPrivileges }: UnitFlags): Pick<UnitOptions, "user" | "allow_new_privileges"> {
  // User names as on Debian; the name is unquoted in the unit.
  if (user !== undefined && !/^[a-z_][a-z0-9_-]{0,31}$/.test(user))
    throw new UsageError(`--user must be the name of a user, not "${user}"`);
  return { ...(user === undefined ? {} : { user }), allow_new_privileges: allowNewPrivileges ?? false };
}

/**
 * Root changes the owner of the state directory at each start: the owner of a directory above it could replace it by a link to any other directory.
 * Root creates missing directories. Throws UsageError.
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
      `with --user every directory above the state directory must be root's, and writable by no others, but ${open} is not: take --state /var/lib/roamfleet-agent`,
    );
}

const places = ({ root = "/" }: PlaceFlags): { unit_path: string; environment_path: string } => ({
  unit_path: join(resolve(root), UNIT_PATH),
  environment_path: join(resolve(root), ENVIRONMENT_PATH),
});

/** Stops the service, and removes what `install` wrote; the state directory with the robot's identity stays. */
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
  else print("the state directory stays; to forget who this robot is, remove it\n");
}

function systemctl(...words: string[]): void {
  const { status, stderr, error } = spawnSync("systemctl", words, { encoding: "utf8", timeout: SYSTEMCTL_TIMEOUT_MS });
  if (status !== 0) throw new Error(`systemctl ${words.join(" ")} failed: ${error?.message ?? stderr.trim()}`);
}

function environmentText(config: AgentConfig): string {
  return config.enroll_key === undefined ? "" : `ROAMFLEET_ENROLL_KEY=${config.enroll_key}\n`;
}
