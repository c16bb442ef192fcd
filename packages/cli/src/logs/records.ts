import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import type { Body, Client } from "@roamfleet/sdk";
import { type Command, Option } from "commander";
import { wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { readTime, type TimeOption } from "../duration.ts";
import { usage } from "../failure.ts";
import type { Output } from "../output.ts";
import { line, type Styled } from "../text.ts";

export interface LogOptions {
  since?: TimeOption;
  until?: TimeOption;
  level?: (typeof LOG_LEVELS)[number];
  source?: string;
  grep?: string;
  limit?: number;
  follow?: boolean;
  export?: string;
}

/** Options that filter log records. */
export const logFilterOptions = (command: Command): Command =>
  command
    .option("--since <time>", "Only records since this time: an age such as 10m, 2h or 3d, or an RFC 3339 time", readTime)
    .option("--until <time>", "Only records before this time", readTime)
    .addOption(new Option("--level <level>", "Only records of this level and above").choices(LOG_LEVELS))
    .option("--source <name>", "Only records from this unit, app, file or ROS node")
    .option("--grep <text>", "Only messages that contain this text, ignoring case")
    .option("--limit <n>", "Show at most this many records: the newest ones", wholeNumber(1));

/** Options of the commands that show the log of a robot or a fleet. */
export const logOptions = (command: Command): Command =>
  logFilterOptions(command)
    .option("--follow", "Print new records as they arrive; with --json one per line")
    .option("--export <file>", "Write all records to a file as JSON lines, oldest first; - is stdout");

/** Rejects conflicting options. */
export function checkOptions({ follow, until, limit, export: file }: LogOptions): void {
  if (follow === true && file !== undefined) throw usage("--follow and --export cannot be used together");
  if (follow === true && (until !== undefined || limit !== undefined))
    throw usage("--follow runs until interrupted and cannot be used with --until or --limit");
  if (file !== undefined && limit !== undefined)
    throw usage("--export writes every record and cannot be used with --limit; use --since and --until");
}

/** Returns the filters as a query. */
export const filterQuery = ({ since, until, level, source, grep }: LogOptions, now: Date) => ({
  since: since?.(now),
  until: until?.(now),
  level,
  source,
  q: grep,
});

export type LogRecord = Body<"listRobotLogs">["items"][number];
type LogPage = Body<"listRobotLogs">;

const PAGE_RECORDS_MAX = 1_000;
/** Maximum records shown if the user passes neither --limit nor --since. With --since, the maximum is SHOWN_SINCE. */
const SHOWN = 200;
const SHOWN_SINCE = 10_000;

/**
 * Returns the newest matching records, oldest first. Reads several pages, because the service may search only a part of the log per
 * request.
 */
export async function readLogs(
  context: Context,
  client: Client,
  name: "listRobotLogs" | "listFleetLogs",
  id: string,
  options: LogOptions,
): Promise<LogPage> {
  const filter = filterQuery(options, context.now());
  const list = (query: object): Promise<LogPage> => client[name]({ params: { id }, query });
  // Without --limit and filters, the service returns the newest records in one page.
  if (options.limit === undefined && Object.values(filter).every((value) => value === undefined)) return await list({});
  const wanted = options.limit ?? (options.since === undefined ? SHOWN : SHOWN_SINCE);
  let items: LogRecord[] = [];
  let next_cursor: string | null = null;
  do {
    const cursor = next_cursor === null ? {} : { cursor: next_cursor };
    const page = await list({ ...filter, limit: Math.min(PAGE_RECORDS_MAX, wanted - items.length), ...cursor });
    items = [...page.items, ...items];
    ({ next_cursor } = page);
  } while (next_cursor !== null && items.length < wanted);
  return { items, next_cursor };
}

/** Prints a note if there are no records, or if older ones exist before the first record shown with --since. */
export function noteMore({ out }: Context, { items, next_cursor }: LogPage, options: LogOptions): void {
  if (items.length === 0)
    out.note(options.since === undefined && options.grep === undefined ? "No log records yet." : "No matching log records.");
  else if (next_cursor !== null && options.limit === undefined && options.since !== undefined)
    out.note("Older records exist: use --limit, --until or --export.");
}

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
