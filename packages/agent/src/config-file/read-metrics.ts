import { httpAddress, METRICS_PATH_DEFAULT } from "../metrics/scrape-address.ts";
import { isLoopback } from "../runtime/loopback.ts";
import { type RobotConfig, ROBOT_CONFIG_DEFAULT, type RosValueConfig, type ScrapeConfig } from "./robot-config.ts";
import { ConfigFileError, type Section } from "./section.ts";

/** Bounds of the intervals in seconds. A chunk has at most an hour, and with many values more samples would not fit into it. */
const METRICS_SECONDS = { interval: { min: 1, max: 300 }, flush: { min: 10, max: 1_800 } };
const SCRAPES_MAX = 16;
const ROS_VALUES_MAX = 64;
/** Labels of a target. Its series have further ones, and a series has at most 8. */
const TARGET_LABELS_MAX = 4;
const NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]{0,127}$/;
const LABEL_VALUE_BYTES_MAX = 128;
const FIELD = /^[A-Za-z_]\w*(?:\[\d{1,6}\])*(?:\.[A-Za-z_]\w*(?:\[\d{1,6}\])*)*$/;

export function readMetrics(section: Section): RobotConfig["metrics"] {
  const { is_on, interval_seconds, flush_seconds } = ROBOT_CONFIG_DEFAULT.metrics;
  const { interval, flush } = METRICS_SECONDS;
  const metrics = {
    is_on: section.onOff("collect") ?? is_on,
    interval_seconds: section.integer("interval_seconds", interval.min, interval.max) ?? interval_seconds,
    flush_seconds: section.integer("flush_seconds", flush.min, flush.max) ?? flush_seconds,
    scrape: atMost(section, "scrape", SCRAPES_MAX, section.sections("scrape", readScrape) ?? []),
    ros: atMost(section, "ros", ROS_VALUES_MAX, section.sections("ros", readRosValue) ?? []),
  };
  if (metrics.flush_seconds < metrics.interval_seconds)
    throw new ConfigFileError(`${section.at("flush_seconds")} must not be less than interval_seconds`);
  return metrics;
}

function atMost<T>(section: Section, name: string, max: number, items: T[]): T[] {
  if (items.length > max) throw new ConfigFileError(`${section.at(name)} must have at most ${max} items, not ${items.length}`);
  return items;
}

function readScrape(section: Section): ScrapeConfig {
  const url = section.text("url");
  if (url === undefined) throw new ConfigFileError(`${section.at("url")} is missing`);
  const address = addressOf(url, section.onOff("remote") ?? false, section.at("url"));
  const { min, max } = METRICS_SECONDS.interval;
  const interval_seconds = section.integer("interval_seconds", min, max);
  return { address, labels: readLabels(section), ...(interval_seconds === undefined ? {} : { interval_seconds }) };
}

/** Parses `http://host:port/path`, or `unix:/path/of/socket:/path`. */
function addressOf(url: string, is_remote_allowed: boolean, at: string): ScrapeConfig["address"] {
  const [, socket, path = METRICS_PATH_DEFAULT] = /^unix:(\/[^:]+)(?::(\/\S*))?$/.exec(url) ?? [];
  if (socket !== undefined) return { instance: socket, socket, path };
  const parsed = URL.parse(url);
  if (parsed?.protocol !== "http:" || parsed.username !== "" || parsed.password !== "")
    throw new ConfigFileError(`${at} must be http://HOST:PORT/PATH without a user, or unix:/SOCKET:/PATH, not ${JSON.stringify(url)}`);
  if (!isLoopback(parsed.hostname) && !is_remote_allowed)
    throw new ConfigFileError(`${at}: ${parsed.hostname} is not this robot: use 127.0.0.1, [::1] or a unix socket, or set remote: on`);
  return httpAddress(parsed);
}

function readLabels(section: Section): Record<string, string> {
  const value = section.value("labels") ?? {};
  const entries = typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  if (typeof value !== "object" || Array.isArray(value) || entries.length > TARGET_LABELS_MAX)
    throw new ConfigFileError(`${section.at("labels")} must be a mapping of at most ${TARGET_LABELS_MAX} names to strings`);
  for (const [name, text] of entries) {
    if (!NAME.test(name)) throw new ConfigFileError(`${section.at("labels")}: ${JSON.stringify(name)} is not a name of a label`);
    if (typeof text !== "string" || text === "" || Buffer.byteLength(text) > LABEL_VALUE_BYTES_MAX)
      throw new ConfigFileError(`${section.at("labels")}.${name} must be a string of 1 to ${LABEL_VALUE_BYTES_MAX} bytes`);
  }
  return Object.fromEntries(entries) as Record<string, string>;
}

function readRosValue(section: Section): RosValueConfig {
  const read = (name: "topic" | "field" | "name", pattern: RegExp, rule: string): string => {
    const text = section.text(name);
    if (text === undefined) throw new ConfigFileError(`${section.at(name)} is missing`);
    if (!pattern.test(text)) throw new ConfigFileError(`${section.at(name)} must be ${rule}, not ${JSON.stringify(text)}`);
    return text;
  };
  return {
    topic: read("topic", /^\/\S{1,127}$/, "a topic such as /battery_state"),
    field: read("field", FIELD, "the path of a field such as pose.position.x or ranges[0]"),
    name: read("name", NAME, "a name for Prometheus, such as battery_voltage"),
  };
}
