import type { Command } from "commander";
import { type LimitOption, limitOption } from "./lists.ts";
import { readTime, type TimeOption } from "./logs/options.ts";

export interface TimelineOptions extends LimitOption {
  kind?: string;
  since?: TimeOption;
  until?: TimeOption;
}

/** Options of both commands that show a timeline. */
export const timelineOptions = (command: Command): Command =>
  limitOption(
    command
      .option("--kind <kind>", "Only entries of this kind, such as robot.connected or deployment.failed")
      .option("--since <time>", "Only entries since: 10m, 2h, 3d ago, or RFC 3339", readTime)
      .option("--until <time>", "Only entries before", readTime),
  );

/** Returns the options as a query. */
export const timelineQuery = ({ kind, since, until }: TimelineOptions, now: Date) => ({ kind, since: since?.(now), until: until?.(now) });
