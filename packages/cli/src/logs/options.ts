import { type Command, InvalidArgumentError, Option } from "commander";
import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import { wholeNumber } from "../command.ts";
import { seconds } from "../duration.ts";
import { usage } from "../failure.ts";

/** A parsed time, resolved when the request is made. */
export type TimeOption = (now: Date) => string;

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

/** Options of both commands that show logs. */
export const logOptions = (command: Command): Command =>
  command
    .option("--since <time>", "Only records since: 10m, 2h, 3d ago, or RFC 3339", readTime)
    .option("--until <time>", "Only records before", readTime)
    .addOption(new Option("--level <level>", "Only this level and above").choices(LOG_LEVELS))
    .option("--source <name>", "Only from this unit, app, file or ROS node")
    .option("--grep <text>", "Only messages that contain this text, ignoring case")
    .option("--limit <n>", "Show at most this many records, newest first kept", wholeNumber(1))
    .option("--follow", "Print new records as they arrive; with --json one per line")
    .option("--export <file>", "Write all records to a file as JSON lines, oldest first; - is stdout");

/** Parses a relative (`10m` ago) or absolute time. */
export function readTime(text: string): TimeOption {
  if (/^\d+[a-z]+$/.test(text)) {
    const ago = seconds(text);
    return (now) => new Date(now.getTime() - ago * 1_000).toISOString();
  }
  const at = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(at.getTime()))
    throw new InvalidArgumentError("Expected a duration such as 10m, 2h or 3d, or a time such as 2030-01-01T08:00:00Z.");
  return () => at.toISOString();
}

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
