import { yieldToEventLoop } from "../../kernel/yield.ts";
import { type LogRecord, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import type { Http } from "../../kernel/http.ts";
import { historyLimit, openCursor, type Page, pages } from "../../kernel/page.ts";
import { type Call, ndjson, oneLine, serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { lineHead, readRecords, unpack } from "./codec.ts";
import { formatKey, parseKey } from "./log-cursor.ts";
import { type BatchScan, fleetScan, type LogFilter, LogMatch, scanLogs } from "./read.ts";
import { logSearchRoutes } from "./search-routes.ts";
import { batchesAfter, type BatchRow, robotBatches, robotsOfFleet } from "./store.ts";

type LogQuery = Call<typeof routes.listRobotLogs>["query"];
type ExportQuery = Call<typeof routes.exportRobotLogs>["query"];

export function logRoutes(http: Http, plane: Plane): void {
  logSearchRoutes(http, plane);

  serve(http, plane, routes.listRobotLogs, async (_plane, { caller, params, query, db }) => {
    await requireRobot(db, caller.org_id, params.id);
    const filter = readFilter(query);
    const scan: BatchScan = (from, limit) => robotBatches(db, caller.org_id, params.id, filter, from, limit);
    return await readLogPage(query, [routes.listRobotLogs.name, caller.org_id, params.id], scan, filter);
  });

  serve(http, plane, routes.listFleetLogs, async (_plane, { caller, params, query, db }) => {
    await requireFleet(db, caller.org_id, params.id);
    const filter = readFilter(query);
    const page = await readLogPage(
      query,
      [routes.listFleetLogs.name, caller.org_id, params.id],
      fleetScan(db, plane.clock, caller.org_id, params.id, filter),
      filter,
    );
    // Sort by time, because the flushes of different robots overlap.
    return { ...page, items: page.items.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)) };
  });

  serve(http, plane, routes.exportRobotLogs, async (_plane, { caller, params, query, db, audit }) => {
    await requireRobot(db, caller.org_id, params.id);
    audit.data = { ...query };
    return ndjson(exportLines(db, caller.org_id, [params.id], readFilter(query)), `logs-${params.id}.ndjson`);
  });

  serve(http, plane, routes.exportFleetLogs, async (_plane, { caller, params, query, db, audit }) => {
    await requireFleet(db, caller.org_id, params.id);
    audit.data = { ...query };
    const robot_ids = await robotsOfFleet(db, caller.org_id, params.id);
    return ndjson(exportLines(db, caller.org_id, robot_ids, readFilter(query)), `logs-${params.id}.ndjson`);
  });
}

const readFilter = ({ since, until, level, source, q }: ExportQuery): LogFilter => ({
  since: parseTime(since),
  until: parseTime(until),
  level,
  source,
  q,
});

async function readLogPage(query: LogQuery, scope: readonly unknown[], scan: BatchScan, filter: LogFilter): Promise<Page<LogRecord>> {
  const { after, encode } = openCursor(query, scope);
  const { records, next } = await scanLogs(scan, new LogMatch(filter), after === null ? undefined : parseKey(after), historyLimit(query));
  return { items: records.toReversed(), next_cursor: next === undefined ? null : encode(formatKey(next)) };
}

/** Number of batches in one read. A batch has at most 256 KiB of JSON, so a read has at most about 8 MB. */
const BATCHES_A_READ = 32;

/**
 * Yields the matching records as lines of JSON: robot by robot, and the oldest records of a robot first. Reads one page of batches at a
 * time, only as fast as the client reads. Includes records that are stored during the export.
 */
async function* exportLines(db: Db, org_id: string, robot_ids: readonly string[], filter: LogFilter): AsyncGenerator<string> {
  const match = new LogMatch(filter);
  for (const robot_id of robot_ids) {
    const read = (last: BatchRow | undefined) => batchesAfter(db, org_id, robot_id, filter, last, BATCHES_A_READ);
    for await (const batches of pages(BATCHES_A_READ, read))
      for (const batch of batches) {
        const lines = linesOf(batch, match);
        if (lines === "") await yieldToEventLoop();
        else yield lines;
      }
  }
}

function linesOf(batch: BatchRow, match: LogMatch): string {
  const { robot_id, received_at } = batch;
  const json = unpack(batch);
  if (!match.mayMatch(json)) return "";
  const head = lineHead(robot_id, wireTime(received_at));
  let lines = "";
  for (const record of readRecords(json)) if (match.matches(record)) lines += `${head}${oneLine(JSON.stringify(record).slice(1))}\n`;
  return lines;
}
