import { type FoundLogRecord, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { historyLimit, openCursor } from "../../kernel/page.ts";
import { type Call, serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { readLabel, requireRobot } from "../robots/index.ts";
import { requireSite } from "../sites/index.ts";
import { toWire } from "./codec.ts";
import { formatKey, parseKey } from "./log-cursor.ts";
import type { LogKey } from "./read.ts";
import { bucketSeconds, Histogram, limitSearches, PERIOD_MS_DEFAULT, search, type SearchEnd, type SearchFilter } from "./search.ts";
import { type RobotFilter, robotNames } from "./store-search.ts";

type Query = Call<typeof routes.countLogs>["query"];

export function logSearchRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.searchLogs, async (_, { caller, query, db }) => {
    const { robots, filter } = await readQuery(plane, db, caller, query);
    const { after, encode } = openCursor(query, [routes.searchLogs.name, caller.org_id]);
    const wanted = historyLimit(query);
    const found: Omit<FoundLogRecord, "robot_name">[] = [];
    const end = await limitSearches(plane, caller.org_id, () =>
      search(plane, db, caller, { robots, filter, after: keyIn(after) }, (record, { robot_id, received_at }) => {
        if (found.length === wanted) return false;
        found.push(toWire(record, robot_id, wireTime(received_at)));
        return true;
      }),
    );
    const names = await robotNames(db, caller.org_id, [...new Set(found.map(({ robot_id }) => robot_id))]);
    // Sort by time, because the flushes of different robots overlap.
    const items = found.toSorted((a, b) => (a.at > b.at ? -1 : a.at < b.at ? 1 : 0));
    return {
      items: items.map((record) => ({ ...record, robot_name: names.get(record.robot_id) ?? record.robot_id })),
      ...endOf(end, encode),
    };
  });

  serve(http, plane, routes.countLogs, async (_, { caller, query, db }) => {
    const { robots, filter, until } = await readQuery(plane, db, caller, query);
    const { after, encode } = openCursor(query, [routes.countLogs.name, caller.org_id]);
    const bucket_seconds = bucketSeconds(filter.since, until);
    const histogram = new Histogram(bucket_seconds, until);
    const end = await limitSearches(plane, caller.org_id, () =>
      search(plane, db, caller, { robots, filter, after: keyIn(after) }, (record) => {
        histogram.add(record);
        return true;
      }),
    );
    const period = { since: wireTime(filter.since), until: wireTime(until), bucket_seconds };
    return { data: { ...period, buckets: histogram.buckets, ...endOf(end, encode) } };
  });
}

async function readQuery(
  { clock }: Plane,
  db: Db,
  { org_id }: Caller,
  query: Query,
): Promise<{ robots: RobotFilter; filter: SearchFilter; until: Date }> {
  const { site_id, fleet_id, robot_id, level, source, q, label = [] } = query;
  if (site_id !== undefined) await requireSite(db, org_id, site_id);
  if (fleet_id !== undefined) await requireFleet(db, org_id, fleet_id);
  if (robot_id !== undefined) await requireRobot(db, org_id, robot_id);
  const until = parseTime(query.until);
  const end = until ?? clock.now();
  const since = parseTime(query.since) ?? new Date(end.getTime() - PERIOD_MS_DEFAULT);
  if (since >= end) throw badRequest("since must be before until");
  return {
    robots: { site_id, fleet_id, robot_id, labels: [label].flat().map(readLabel) },
    filter: { since, until, level, source, q },
    until: end,
  };
}

const keyIn = (after: string | null): LogKey | undefined => (after === null ? undefined : parseKey(after));

const endOf = ({ next, searched_back_to }: SearchEnd, encode: (key: string) => string) => ({
  searched_back_to: searched_back_to === undefined ? null : wireTime(searched_back_to),
  next_cursor: next === undefined ? null : encode(formatKey(next)),
});
