import { type Command, InvalidArgumentError, Option } from "commander";
import { LOG_LEVELS } from "@robofleet/protocol/link/limits";
import { wholeNumber } from "../command.ts";
import { seconds } from "../duration.ts";
import { usage } from "../failure.ts";

/** A time that was given, and how to tell it to the service. */
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

/** Both commands that show logs know these. */
export const logOptions = (command: Command): Command =>
  command
    .option("--since <time>", "Only from then on: 10m, 2h, 3d ago, or RFC 3339", readTime)
    .option("--until <time>", "Only before then", readTime)
    .addOption(new Option("--level <level>", "Only this level and worse").choices(LOG_LEVELS))
    .option("--source <name>", "Only of this unit, app, file or ROS node")
    .option("--grep <text>", "Only messages that contain this text, in any case")
    .option("--limit <n>", "Show at most this many, the newest", wholeNumber(1))
    .option("--follow", "Print records as they come; with --json one a line")
    .option("--export <file>", "Write all of them to a file as lines of JSON, the oldest first; - is stdout");

/** `10m` ago, or a time. */
export function readTime(text: string): TimeOption {
  if (/^\d+[a-z]+$/.test(text)) {
    const ago = seconds(text);
    return (now) => new Date(now.getTime() - ago * 1_000).toISOString();
  }
  const at = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(at.getTime()))
    throw new InvalidArgumentError("It takes a length of time such as 10m, 2h or 3d, or a time such as 2030-01-01T08:00:00Z.");
  return () => at.toISOString();
}

/** What does not go together. */
export function checkOptions({ follow, until, limit, export: file }: LogOptions): void {
  if (follow === true && file !== undefined) throw usage("--follow prints what comes, --export writes what there is: give one of the two");
  if (follow === true && (until !== undefined || limit !== undefined))
    throw usage("--follow goes on until it is interrupted: --until and --limit are not for it");
  if (file !== undefined && limit !== undefined) throw usage("--export writes every record; --since and --until limit it");
}

/** The same filters as a query. */
export const filterQuery = ({ since, until, level, source, grep }: LogOptions, now: Date) => ({
  since: since?.(now),
  until: until?.(now),
  level,
  source,
  q: grep,
});
