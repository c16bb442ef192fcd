import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { LogLevel } from "@roamfleet/protocol/link";
import type { RobotConfig } from "../../config-file/robot-config.ts";
import type { LogRecord, LogSink } from "../../contract.ts";
import { errorText } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";
import { LogRateLimiter } from "../log-rate-limiter.ts";
import { Positions, type SafeSpool } from "./positions.ts";

export interface LogSourcesOptions {
  settings: Omit<RobotConfig["logs"], "filters">;
  state_directory: string;
  clock: Clock;
  log: Logger;
  sink: LogSink;
  environment: Readonly<Record<string, string>>;
  /**
   * Returns true while less than half of the spool is used. Otherwise lines wait in their files and in the journal, which are as durable as
   * the spool.
   */
  spoolHasRoom: () => boolean;
  spool: SafeSpool;
  boot_id: string;
  /** Directory for the positions that are written each second and need not survive a power loss; preferably in memory. */
  recent_directory: string;
  /** Gives access to the robot's ROS; absent: the agent has no ROS. */
  ros?: RosoutTopic;
  /** Command that replaces `journalctl`. Tests use it to read another journal. */
  journalctl?: readonly string[];
}

export interface LogSources {
  stop(): Promise<void>;
}

/** Starts the sources that the robot's config file enables: the journal, files, /rosout. */
export async function startLogSources(options: LogSourcesOptions): Promise<LogSources> {
  const {
    settings,
    state_directory,
    clock,
    log,
    sink,
    environment,
    spoolHasRoom,
    spool,
    boot_id,
    recent_directory,
    ros,
    journalctl = ["journalctl"],
  } = options;
  const stops: (() => void | Promise<void>)[] = [];
  const newLimiter = (): LogRateLimiter => {
    const made = new LogRateLimiter(sink, clock);
    stops.unshift(() => made.close());
    return made;
  };
  // Start each source separately, so that a source that fails does not affect the others.
  const begin = async (source: string, start: () => Promise<unknown>): Promise<void> => {
    try {
      await start();
    } catch (error) {
      log.error({ source, reason: errorText(error) }, "logs of a source cannot be read");
    }
  };
  if (settings.journald !== false || settings.files.length > 0) {
    const positions = new Positions({ state_directory, recent_directory, boot_id, clock, log, spool });
    stops.unshift(() => positions.close());
    const shared = { clock, log, positions, spoolHasRoom };
    if (settings.files.length > 0) {
      await begin("files", async () => {
        const { FileLogs } = await import("./files.ts");
        const files = new FileLogs({ ...shared, globs: settings.files, state_directory, limiter: newLimiter() });
        files.start();
        stops.unshift(() => files.stop());
      });
    }
    if (settings.journald !== false) {
      const units = settings.journald === true ? [] : settings.journald;
      await begin("journald", async () => {
        const { Journal } = await import("./journald.ts");
        const journal = new Journal({ ...shared, units, command: journalctl, environment, limiter: newLimiter() });
        journal.start();
        stops.unshift(() => journal.stop());
      });
    }
  }
  if (settings.rosout && ros !== undefined) {
    await begin("rosout", async () =>
      stops.unshift(await followRosout(ros, rosoutSink({ clock, spoolHasRoom, nodes: newLimiter() }, stops))),
    );
  }
  return {
    stop: async () => {
      for (const stop of stops) await stop();
    },
  };
}

const ROSOUT = "/rosout";

/**
 * Creates the sink for the records of /rosout. All nodes share one rate limit, besides the limit of each node: a node chooses its name, so
 * it could evade its own limit. Records are dropped if they exceed a limit or the spool has no room, since they cannot be read again later.
 */
function rosoutSink(
  { clock, spoolHasRoom, nodes }: Pick<LogSourcesOptions, "clock" | "spoolHasRoom"> & { nodes: LogRateLimiter },
  stops: (() => void | Promise<void>)[],
): LogSink {
  const all = new LogRateLimiter(nodes, clock);
  stops.unshift(() => all.close());
  return {
    write: (record) => {
      if (spoolHasRoom()) all.write(record, undefined, ROSOUT);
      else all.drop(ROSOUT, 1);
    },
  };
}

/** The only method of the robot's ROS that this file needs. */
export interface RosoutTopic {
  subscribe(topic: string, options: { type?: string }, on: (message: { at: Date; message: unknown }) => void): Promise<() => void>;
}

/**
 * Maps level numbers of ROS to log levels. rosgraph_msgs/Log of ROS 1 and rcl_interfaces/msg/Log of ROS 2 use different numbers. No number
 * is used by both, so one table is enough.
 */
const LEVELS: Readonly<Record<number, LogLevel>> = {
  1: "debug",
  2: "info",
  4: "warn",
  8: "error",
  16: "fatal",
  10: "debug",
  20: "info",
  30: "warn",
  40: "error",
  50: "fatal",
};

/** Message types of `/rosout` in ROS 2 and in ROS 1. A robot that runs both has two topics with this name. */
const TYPES = ["rcl_interfaces/msg/Log", "rosgraph_msgs/Log"];

/** Writes the log messages of ROS nodes to the sink until the returned function is called. */
export async function followRosout(ros: RosoutTopic, sink: LogSink): Promise<() => void> {
  const on = ({ message, at }: { at: Date; message: unknown }): void => {
    const record = rosoutRecord(message, at);
    if (record !== undefined) sink.write(record);
  };
  const stops = await Promise.all(TYPES.map((type) => ros.subscribe("/rosout", { type }, on)));
  return () => stops.forEach((stop) => stop());
}

/** Converts a message of /rosout to a log record of the node that sent it. Returns undefined if the message is invalid. */
export function rosoutRecord(message: unknown, at: Date): LogRecord | undefined {
  const { level, name, msg, file, function: fn, line, header, stamp } = fieldsOf(message);
  if (typeof msg !== "string") return undefined;
  const fields = {
    ...(typeof file === "string" && file !== "" ? { file } : {}),
    ...(typeof fn === "string" && fn !== "" ? { function: fn } : {}),
    ...(typeof line === "number" && line > 0 ? { line } : {}),
  };
  return {
    level: LEVELS[Number(level)] ?? "info",
    source: typeof name === "string" && name !== "" ? name : "/rosout",
    message: msg,
    fields,
    // The timestamp is in a header in ROS 1, and beside the other fields in ROS 2.
    at: dateOf(stamp ?? fieldsOf(header)["stamp"]) ?? at,
  };
}

/** Converts a timestamp; returns undefined if it is not set or is simulated time. */
function dateOf(stamp: unknown): Date | undefined {
  const { sec, nsec, nanosec } = fieldsOf(stamp);
  const seconds = Number(sec);
  // An unset timestamp is 0, and simulated time begins at 0. Such records would be sorted long before all others.
  if (!Number.isFinite(seconds) || seconds < STAMP_SECONDS_MIN) return undefined;
  const at = new Date(seconds * 1_000 + Number(nanosec ?? nsec ?? 0) / 1e6);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** Minimum timestamp in seconds since 1970: the year 2001. A correct clock never shows an earlier time. */
const STAMP_SECONDS_MIN = 1_000_000_000;
