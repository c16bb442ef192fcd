import { readFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import {
  type CameraSource,
  ROBOT_CONFIG_DEFAULT,
  type RobotConfig,
  ROS_ADAPTERS,
  type RosAdapterName,
  SIGNED_SWITCHES,
  type SignedSwitch,
  STREAM_SWITCHES,
} from "./robot-config.ts";
import { checkRules } from "../streams/forward/rules.ts";

/** Read if it exists and no other file is named. */
const ROBOT_CONFIG_FILE = "/etc/roamfleet/agent.yaml";

/**
 * Reads the robot's own config file (YAML): the named one, which must exist, or ROBOT_CONFIG_FILE, which may be absent. Throws ConfigFileError with
 * the file and the key.
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
  const file = new Section(value);
  const forward = file.section("forward");
  const forward_named = forward.has("allow");
  const config: RobotConfig = {
    streams: readSwitches(file.section("streams")),
    shell: readShell(file.section("shell")),
    cameras: readCameras(file.sections("cameras") ?? []),
    ros: readRos(file.section("ros")),
    logs: readLogs(file.section("logs")),
    forward: readForward(forward),
    files: readFiles(file.section("files")),
    containers: readContainers(file.section("containers")),
    signed: readSigned(file.section("signed")),
  };
  file.end();
  checkSigned(config, forward_named);
  return config;
}

function readSwitches(section: Section): RobotConfig["streams"] {
  const streams = { ...ROBOT_CONFIG_DEFAULT.streams };
  for (const name of STREAM_SWITCHES) streams[name] = section.onOff(name) ?? streams[name];
  section.end();
  return streams;
}

function readShell(section: Section): RobotConfig["shell"] {
  const [user, command] = [section.text("user"), section.texts("command")];
  section.end();
  if (command?.length === 0) throw new ConfigFileError(`${section.at("command")} must name a program`);
  return { ...(user === undefined ? {} : { user }), ...(command === undefined ? {} : { command }) };
}

function readCameras(sections: readonly Section[]): CameraSource[] {
  const cameras = sections.map(readCamera);
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
  section.end();
  const [source] = sources;
  if (source === undefined || sources.length > 1)
    throw new ConfigFileError(`${section.at("name")} ${name}: give one of ffmpeg, mjpeg, ros and test_picture`);
  return source;
}

const DOMAIN_ID_MAX = 232;

function readRos(section: Section): RobotConfig["ros"] {
  const adapters = section.texts("adapters") ?? ROBOT_CONFIG_DEFAULT.ros.adapters;
  const unknown = adapters.find((name) => !(ROS_ADAPTERS as readonly string[]).includes(name));
  if (unknown !== undefined) throw new ConfigFileError(`${section.at("adapters")}: ${unknown} is none of ${ROS_ADAPTERS.join(", ")}`);
  const domain_id = section.integer("domain_id", 0, DOMAIN_ID_MAX);
  const prefixes = section.texts("prefixes");
  const relative = prefixes?.find((prefix) => !isAbsolute(prefix));
  if (relative !== undefined) throw new ConfigFileError(`${section.at("prefixes")}: ${JSON.stringify(relative)} is not absolute`);
  const foxglove_url = readUrl(section, "foxglove_url", ["ws:", "wss:"]);
  const rosbridge_url = readUrl(section, "rosbridge_url", ["ws:", "wss:"]);
  const ros1_master_uri = readUrl(section, "ros1_master_uri", ["http:"]);
  section.end();
  return {
    adapters: adapters as RosAdapterName[],
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
  const logs = {
    journald: units ?? switched ?? ROBOT_CONFIG_DEFAULT.logs.journald,
    files: section.texts("files") ?? ROBOT_CONFIG_DEFAULT.logs.files,
    rosout: section.onOff("rosout") ?? ROBOT_CONFIG_DEFAULT.logs.rosout,
  };
  section.end();
  return logs;
}

function readForward(section: Section): RobotConfig["forward"] {
  const allow = section.texts("allow") ?? ROBOT_CONFIG_DEFAULT.forward.allow;
  section.end();
  try {
    checkRules(allow);
  } catch (error) {
    throw new ConfigFileError(`${section.at("allow")}: ${(error as Error).message}`);
  }
  return { allow };
}

function readFiles(section: Section): RobotConfig["files"] {
  const directories = section.texts("directories") ?? ROBOT_CONFIG_DEFAULT.files.directories;
  section.end();
  const relative = directories.find((directory) => !isAbsolute(directory));
  if (relative !== undefined) throw new ConfigFileError(`${section.at("directories")}: ${JSON.stringify(relative)} is not absolute`);
  return { directories };
}

function readContainers(section: Section): RobotConfig["containers"] {
  const { devices, host_network } = ROBOT_CONFIG_DEFAULT.containers;
  const containers = { devices: section.onOff("devices") ?? devices, host_network: section.onOff("host_network") ?? host_network };
  section.end();
  return containers;
}

function readSigned(section: Section): RobotConfig["signed"] {
  const allow = section.texts("allow") ?? ROBOT_CONFIG_DEFAULT.signed.allow;
  section.end();
  const unknown = allow.find((name) => !(SIGNED_SWITCHES as readonly string[]).includes(name));
  if (unknown !== undefined) throw new ConfigFileError(`${section.at("allow")}: ${unknown} is none of ${SIGNED_SWITCHES.join(", ")}`);
  return { allow: allow as SignedSwitch[] };
}

/**
 * A robot that accepts only signed releases may allow shell, files and forward only with an explicit user and targets: the defaults reach too far.
 */
function checkSigned({ signed, shell }: RobotConfig, forward_named: boolean): void {
  const { allow } = signed;
  if (shell.user === undefined && (allow.includes("shell") || allow.includes("files")))
    throw new ConfigFileError("signed.allow: shell and files need shell.user, the user that they run as");
  if (allow.includes("forward") && !forward_named)
    throw new ConfigFileError("signed.allow: forward needs forward.allow, the addresses and ports that it may reach");
}

function readUrl(section: Section, name: string, protocols: readonly string[]): string | undefined {
  const text = section.text(name);
  if (text === undefined) return undefined;
  if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol))
    throw new ConfigFileError(
      `${section.at(name)} must be an address that begins with ${protocols.map((one) => `${one}//`).join(" or ")}, not ${JSON.stringify(text)}`,
    );
  return text;
}

/** An error in a config file; the message names the key. */
export class ConfigFileError extends Error {}

/** One mapping of a config file, read key by key; `end` reports keys that were not read. */
class Section {
  readonly #values: Map<string, unknown>;
  readonly #path: string;

  constructor(value: unknown, path = "") {
    // Only the whole file may be empty. In a section whose lines are all commented out, the defaults may allow more than its author wanted.
    if (value === null && path !== "") throw new ConfigFileError(`${path} is empty: leave it out, or write {} for none`);
    if (value !== undefined && value !== null && !isMapping(value))
      throw new ConfigFileError(`${path || "the file"} must be a mapping of names to values`);
    this.#values = new Map(Object.entries(value ?? {}));
    this.#path = path;
  }

  /** Returns the full path of a key, for messages. */
  at(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }

  section(name: string): Section {
    const value = this.#values.get(name);
    this.#values.delete(name);
    return new Section(value, this.at(name));
  }

  sections(name: string): Section[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) throw this.#wrong(name, "must be a list");
    return value.map((one: unknown, i) => new Section(one, `${this.at(name)}[${i}]`));
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw this.#wrong(name, "must be a text", value);
    return value;
  }

  texts(name: string): string[] | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string" && one !== ""))
      throw this.#wrong(name, "must be a list of texts");
    return value as string[];
  }

  /** `on`, `off`, true or false. */
  onOff(name: string): boolean | undefined {
    const value = this.#take(name);
    if (value === undefined || typeof value === "boolean") return value;
    if (value === "on" || value === "off") return value === "on";
    throw this.#wrong(name, "must be on or off", value);
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || Number(value) < min || Number(value) > max)
      throw this.#wrong(name, `must be a whole number from ${min} to ${max}`, value);
    return Number(value);
  }

  /** Returns a value that the caller validates. */
  value(name: string): unknown {
    return this.#take(name);
  }

  /** Throws if a key was not read. */
  end(): void {
    const [name] = this.#values.keys();
    if (name !== undefined) throw new ConfigFileError(`${this.at(name)} is not known`);
  }

  #take(name: string): unknown {
    const value = this.#values.get(name);
    // All entries are commented out: the default may be the opposite of what the author wanted.
    if (value === null) throw new ConfigFileError(`${this.at(name)} is empty: write [] for none`);
    this.#values.delete(name);
    return value;
  }

  #wrong(name: string, rule: string, value?: unknown): ConfigFileError {
    return new ConfigFileError(`${this.at(name)} ${rule}${value === undefined ? "" : `, not ${JSON.stringify(value)}`}`);
  }
}

const isMapping = (value: unknown): boolean => typeof value === "object" && !Array.isArray(value);
