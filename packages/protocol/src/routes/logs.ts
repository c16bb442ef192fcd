import { Type } from "typebox";
import { LOG_LEVELS } from "../link/limits.ts";
import { Maybe, Nullable, Shape } from "../schema.ts";
import { LabelFilter, LogRecord, logFilter } from "./robots.ts";
import { Count, DataOf, defineRoutes, Entity, Id, type Of, page, Time } from "./route.ts";

const robotFilter = { site_id: Maybe(Id), fleet_id: Maybe(Id), robot_id: Maybe(Id), label: Maybe(LabelFilter) };
const searchFilter = { ...logFilter, ...robotFilter };
const SearchedBackTo = Nullable({
  ...Time,
  description: "Set if the request reached its limit: records received before this time were not searched. next_cursor continues there",
});

export const FoundLogRecord = Entity("FoundLogRecord", { ...LogRecord.properties, robot_name: Type.String() });
export type FoundLogRecord = Of<typeof FoundLogRecord>;

/** Maximum buckets of a histogram. */
export const LOG_BUCKETS_MAX = 120;

export const LogHistogram = Entity("LogHistogram", {
  since: Time,
  until: Time,
  bucket_seconds: Count,
  buckets: Type.Array(Shape({ at: Time, counts: Shape(Object.fromEntries(LOG_LEVELS.map((level) => [level, Count])) as LevelCounts) }), {
    maxItems: LOG_BUCKETS_MAX,
    description: "Oldest first; buckets without records are omitted",
  }),
  searched_back_to: SearchedBackTo,
  next_cursor: Nullable(Type.String()),
});
type LevelCounts = Record<(typeof LOG_LEVELS)[number], typeof Count>;
export type LogHistogram = Of<typeof LogHistogram>;

export const logRoutes = defineRoutes("Logs", {
  searchLogs: {
    summary: "Search the logs of the org's robots, newest first. Without `since`, the last hour",
    query: Shape({ ...page, ...searchFilter }),
    responses: {
      200: Shape({ items: Type.Array(FoundLogRecord), next_cursor: Nullable(Type.String()), searched_back_to: SearchedBackTo }),
    },
    errors: [404],
  },
  countLogs: {
    summary: "Count matching log records by time and level. Add the counts of all pages. Without `since`, the last hour",
    query: Shape({ cursor: page.cursor, ...searchFilter }),
    responses: { 200: DataOf(LogHistogram) },
    errors: [404],
  },
});
