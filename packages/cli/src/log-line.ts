import type { Body } from "@roamfleet/sdk";
import type { Output } from "./output.ts";
import { line, type Styled } from "./text.ts";

type LogRecord = Body<"listRobotLogs">["items"][number];

const LEVEL_WIDTH = 5;

/** Formats a log record on one line, with control characters escaped. `robot` is set for records of several robots. */
export function logLine(out: Output, record: LogRecord, options: { robot?: Styled } = {}): string {
  const { level } = record;
  const robot = options.robot === undefined ? [] : [options.robot.rendered];
  const fields = Object.keys(record.fields).length === 0 ? [] : [out.paint("quiet", JSON.stringify(record.fields)).rendered];
  const padding = " ".repeat(Math.max(0, LEVEL_WIDTH - level.length));
  return [
    out.paint("quiet", record.at).rendered,
    ...robot,
    line`${out.status(level)}${padding}`,
    line`${out.paint("strong", record.source)}`,
    line`${record.message}`,
    ...fields,
  ].join("  ");
}
