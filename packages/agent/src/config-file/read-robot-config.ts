import { readFileSync } from "node:fs";
import { join } from "node:path";
import { LOG_LEVELS } from "@roamfleet/protocol/link";
import {
  type CameraSource,
  DOMAIN_ID_MAX,
  type HookCommand,
  type LogFilterRule,
  OS_IMAGE_DEFAULTS,
  type OsImageHook,
  ROBOT_CONFIG_DEFAULT,
  type RobotConfig,
  ROS_ADAPTERS,
  SIGNED_SWITCHES,
  STREAM_SWITCHES,
} from "./robot-config.ts";
import { checkRules } from "../streams/forward/rules.ts";
import { readMetrics } from "./read-metrics.ts";
import { ConfigFileError, readSection, readUrl, Section } from "./section.ts";

/** Default config file. It is read if no other file is named, and may be absent. */
const ROBOT_CONFIG_FILE = "/etc/roamfleet/agent.yaml";

/**
 * Reads the robot's own config file (YAML). `named` is the path of a file that must exist; undefined means ROBOT_CONFIG_FILE, which may be
 * absent. Throws ConfigFileError, whose message names the file and the key.
 */
export async function readRobotConfig(named: string | undefined, root = "/"): Promise<RobotConfig> {
  const file = join(root, named ?? ROBOT_CONFIG_FILE);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (named === undefined && (error as NodeJS.ErrnoException).code === "ENOENT") return ROBOT_CONFIG_DEFAULT;
    throw new ConfigFileError(`the config file ${file} cannot be read: ${(error as Error).message}`);
  }
  try {
    return await parseRobotConfig(text);
  } catch (error) {
    throw new ConfigFileError(`${file}: ${(error as Error).message}`);
  }
}

/** Throws ConfigFileError for invalid YAML, and for a wrong or unknown key. */
export async function parseRobotConfig(text: string): Promise<RobotConfig> {
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new ConfigFileError((error as Error).message);
  }
  const config = readSection(value, "", (file) => ({
    streams: file.section("streams", readSwitches),
    shell: file.section("shell", readShell),
    cameras: readCameras(file),
    ros: file.section("ros", readRos),
    logs: file.section("logs", readLogs),
    network: file.section("network", readNetwork),
    forward: file.section("forward", readForward),
    files: file.section("files", (section) => ({ directories: section.paths("directories") ?? ROBOT_CONFIG_DEFAULT.files.directories })),
    containers: file.section("containers", readContainers),
    health: file.section("health", readHealth),
    metrics: file.section("metrics", readMetrics),
    os_image: file.section("os_image", readOsImage),
    signed: file.section("signed", (section) => ({
      allow: section.choices("allow", SIGNED_SWITCHES) ?? ROBOT_CONFIG_DEFAULT.signed.allow,
    })),
  }));
  checkSigned(config);
  return config;
}

function readSwitches(section: Section): RobotConfig["streams"] {
  const streams = { ...ROBOT_CONFIG_DEFAULT.streams };
  for (const name of STREAM_SWITCHES) streams[name] = section.onOff(name) ?? streams[name];
  return streams;
}

function readShell(section: Section): RobotConfig["shell"] {
  const [user, command] = [section.text("user"), section.texts("command")];
  if (command?.length === 0) throw new ConfigFileError(`${section.at("command")} must name a program`);
  return { ...(user === undefined ? {} : { user }), ...(command === undefined ? {} : { command }) };
}

function readCameras(file: Section): CameraSource[] {
  const cameras = file.sections("cameras", readCamera) ?? [];
  const twice = cameras.find(({ name }, i) => cameras.findIndex((other) => other.name === name) < i);
  if (twice !== undefined) throw new ConfigFileError(`cameras: the name ${JSON.stringify(twice.name)} is given twice`);
  return cameras;
}

function readCamera(section: Section): CameraSource {
  const name = section.text("name");
  if (name === undefined) throw new ConfigFileError(`${section.at("name")} is missing`);
  const sources: CameraSource[] = [];
  const input = section.texts("ffmpeg");
  if (input !== undefined) sources.push({ name, kind: "ffmpeg", input });
  const url = readUrl(section, "mjpeg", ["http:", "https:"]);
  if (url !== undefined) sources.push({ name, kind: "mjpeg", url });
  const topic = section.text("ros");
  if (topic !== undefined) sources.push({ name, kind: "ros", topic });
  if (section.onOff("test_picture") === true) sources.push({ name, kind: "test_picture" });
  const [source] = sources;
  if (source === undefined || sources.length > 1)
    throw new ConfigFileError(`${section.at("name")} ${name}: set exactly one of ffmpeg, mjpeg, ros and test_picture`);
  return source;
}

function readRos(section: Section): RobotConfig["ros"] {
  const adapters = section.choices("adapters", ROS_ADAPTERS) ?? ROBOT_CONFIG_DEFAULT.ros.adapters;
  const domain_id = section.integer("domain_id", 0, DOMAIN_ID_MAX);
  const prefixes = section.paths("prefixes");
  const foxglove_url = readUrl(section, "foxglove_url", ["ws:", "wss:"]);
  const rosbridge_url = readUrl(section, "rosbridge_url", ["ws:", "wss:"]);
  const ros1_master_uri = readUrl(section, "ros1_master_uri", ["http:"]);
  return {
    adapters,
    ...(domain_id === undefined ? {} : { domain_id }),
    ...(prefixes === undefined ? {} : { prefixes }),
    ...(foxglove_url === undefined ? {} : { foxglove_url }),
    ...(rosbridge_url === undefined ? {} : { rosbridge_url }),
    ...(ros1_master_uri === undefined ? {} : { ros1_master_uri }),
  };
}

function readLogs(section: Section): RobotConfig["logs"] {
  const journald = section.value("journald");
  const units = Array.isArray(journald) && journald.every((unit) => typeof unit === "string") ? journald : undefined;
  const switched = units === undefined ? new Section({ journald }, "logs").onOff("journald") : undefined;
  return {
    journald: units ?? switched ?? ROBOT_CONFIG_DEFAULT.logs.journald,
    files: section.texts("files") ?? ROBOT_CONFIG_DEFAULT.logs.files,
    rosout: section.onOff("rosout") ?? ROBOT_CONFIG_DEFAULT.logs.rosout,
    filters: section.sections("filters", readLogFilter) ?? ROBOT_CONFIG_DEFAULT.logs.filters,
  };
}

/** Highest rate of a filter. Without a filter, the agent limits each source to the same rate. */
const FILTER_RECORDS_PER_SECOND_MAX = 1_000;

function readLogFilter(section: Section): LogFilterRule {
  const source = section.text("source");
  if (source === undefined) throw new ConfigFileError(`${section.at("source")} is missing: write "*" for all sources`);
  const level = section.choice("level", LOG_LEVELS);
  const records_per_second = section.integer("records_per_second", 1, FILTER_RECORDS_PER_SECOND_MAX);
  if (level === undefined && records_per_second === undefined)
    throw new ConfigFileError(`${section.at("source")} ${source}: set level, records_per_second or both`);
  return { source, ...(level === undefined ? {} : { level }), ...(records_per_second === undefined ? {} : { records_per_second }) };
}

/**
 * Bounds of the rates in KiB per second. At a lower rate, a batch of log records would count as lost and be repeated before it was sent
 * completely.
 */
const NETWORK_KIB = { min: 16, max: 1024 * 1024 };

function readNetwork(section: Section): RobotConfig["network"] {
  const read = (name: string): number | undefined => section.integer(name, NETWORK_KIB.min, NETWORK_KIB.max);
  const [download, upload] = [read("download_kib_per_second"), read("upload_kib_per_second")];
  return {
    ...(download === undefined ? {} : { download_bytes_per_second: download * 1024 }),
    ...(upload === undefined ? {} : { upload_bytes_per_second: upload * 1024 }),
  };
}

function readForward(section: Section): RobotConfig["forward"] {
  const allow = section.texts("allow") ?? ROBOT_CONFIG_DEFAULT.forward.allow;
  try {
    checkRules(allow);
  } catch (error) {
    throw new ConfigFileError(`${section.at("allow")}: ${(error as Error).message}`);
  }
  return { allow };
}

function readContainers(section: Section): RobotConfig["containers"] {
  const { devices, host_network } = ROBOT_CONFIG_DEFAULT.containers;
  return { devices: section.onOff("devices") ?? devices, host_network: section.onOff("host_network") ?? host_network };
}

const HEALTH_SECONDS_MAX = 86_400;

function readHealth(section: Section): RobotConfig["health"] {
  const interval_seconds = section.integer("interval_seconds", 1, HEALTH_SECONDS_MAX);
  return interval_seconds === undefined ? {} : { interval_seconds };
}

/** Maximum time limit of a command of `os_image`. */
const HOOK_SECONDS_MAX = 86_400;
const HOOK_COMMANDS = ["status", "install", "activate", "confirm"] as const;

function readOsImage(section: Section): RobotConfig["os_image"] {
  const { command_ms, install_ms, connect_ms, reboot } = OS_IMAGE_DEFAULTS;
  const connect_seconds = section.integer("connect_seconds", 1, HOOK_SECONDS_MAX);
  const read = (name: string, timeout_ms: number): HookCommand | undefined => section.optional(name, (one) => readHook(one, timeout_ms));
  const commands = { status: read("status", command_ms), install: read("install", install_ms), activate: read("activate", command_ms) };
  const hook = { ...commands, confirm: read("confirm", command_ms), reboot: read("reboot", command_ms) };
  const given = { connect_ms: connect_seconds === undefined ? connect_ms : connect_seconds * 1_000 };
  if (Object.values(hook).every((one) => one === undefined)) return given;
  const missing = HOOK_COMMANDS.find((name) => hook[name] === undefined);
  if (missing !== undefined) throw new ConfigFileError(`${section.at(missing)} is missing: a hook needs ${HOOK_COMMANDS.join(", ")}`);
  return { ...given, hook: { reboot: { command: reboot, timeout_ms: command_ms }, ...definedOf(hook) } as OsImageHook };
}

function readHook(section: Section, timeout_ms: number): HookCommand {
  const command = section.texts("command");
  if (command === undefined || command.length === 0) throw new ConfigFileError(`${section.at("command")} must name a program`);
  const seconds = section.integer("timeout_seconds", 1, HOOK_SECONDS_MAX);
  return { command, timeout_ms: seconds === undefined ? timeout_ms : seconds * 1_000 };
}

const definedOf = (fields: object): object => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/**
 * Checks `signed.allow`, the streams that stay allowed while the robot accepts only signed releases. Shell and files require an explicit
 * `shell.user`, forward requires an explicit `forward.allow`: the defaults permit too much.
 */
function checkSigned({ signed, shell, forward }: RobotConfig): void {
  const { allow } = signed;
  if (shell.user === undefined && (allow.includes("shell") || allow.includes("files")))
    throw new ConfigFileError("signed.allow: shell and files need shell.user, the user that they run as");
  // If the file has no forward.allow, readForward returns the default array itself. So comparing the references shows whether the file has
  // one.
  if (allow.includes("forward") && forward.allow === ROBOT_CONFIG_DEFAULT.forward.allow)
    throw new ConfigFileError("signed.allow: forward needs forward.allow, the addresses and ports that it may reach");
}
