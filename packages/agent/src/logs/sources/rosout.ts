import type { LogLevel } from "@roamfleet/protocol/link";
import type { LogRecord, LogSink } from "../../contract.ts";

/** The part of the robot's ROS that is needed. */
export interface RosoutTopic {
  subscribe(topic: string, options: { type?: string }, on: (message: { at: Date; message: unknown }) => void): Promise<() => void>;
}

/** rosgraph_msgs/Log of ROS 1 and rcl_interfaces/msg/Log of ROS 2 number their levels differently, and share no number but these. */
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

/** A robot with ROS 1 and ROS 2 has two topics of the name `/rosout`. */
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

/** Converts a message of /rosout to a record of its node; undefined if it is invalid. */
export function rosoutRecord(message: unknown, at: Date): LogRecord | undefined {
  if (typeof message !== "object" || message === null) return undefined;
  const { level, name, msg, file, function: fn, line } = message as Record<string, unknown>;
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
    at: stampOf(message) ?? at,
  };
}

/** Reads the timestamp: ROS 1 has it in a header, ROS 2 beside the other fields. It is 0 if it was not set or time is simulated. */
function stampOf(message: object): Date | undefined {
  const { header, stamp } = message as { header?: unknown; stamp?: unknown };
  const time = stamp ?? (typeof header === "object" && header !== null && "stamp" in header ? header.stamp : undefined);
  if (typeof time !== "object" || time === null) return undefined;
  const { sec, nsec, nanosec } = time as Record<string, unknown>;
  const seconds = Number(sec);
  // Simulated time begins at 0: such records would be sorted long before all others.
  if (!Number.isFinite(seconds) || seconds < STAMP_SECONDS_MIN) return undefined;
  const at = new Date(seconds * 1_000 + Number(nanosec ?? nsec ?? 0) / 1e6);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** The year 2001: no wall clock shows an earlier time. */
const STAMP_SECONDS_MIN = 1_000_000_000;
