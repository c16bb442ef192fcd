import { Readable } from "node:stream";
import { type LogRecord, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Http } from "../../kernel/http.ts";
import { openCursor, PAGE_ROWS_MAX, type Page } from "../../kernel/page.ts";
import { badRequest } from "../../kernel/fault.ts";
import { Answer, type Call, serve } from "../../kernel/serve.ts";
import { parseTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { exportLines } from "./export.ts";
import { type LogFilter, LogMatch } from "./match.ts";
import { fleetScan } from "./fleet-scan.ts";
import { type BatchScan, type LogKey, scanLogs } from "./read.ts";
import { robotBatches, robotsOfFleet } from "./store.ts";

/** Records of an answer when the request says neither `limit` nor `cursor`. */
const LOG_RECORDS_SHOWN = 200;

type LogQuery = Call<typeof routes.listRobotLogs>["query"];
type ExportQuery = Call<typeof routes.exportRobotLogs>["query"];

export function logRoutes(http: Http, plane: Plane): void {
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
    // The flushes of different robots overlap in time.
    return { ...page, items: page.items.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)) };
  });

  serve(http, plane, routes.exportRobotLogs, async (_plane, { caller, params, query, db, audit }) => {
    await requireRobot(db, caller.org_id, params.id);
    audit.data = { ...query };
    return ndjson(exportLines(db, caller.org_id, [params.id], readFilter(query)), params.id);
  });

  serve(http, plane, routes.exportFleetLogs, async (_plane, { caller, params, query, db, audit }) => {
    await requireFleet(db, caller.org_id, params.id);
    audit.data = { ...query };
    const robot_ids = await robotsOfFleet(db, caller.org_id, params.id);
    return ndjson(exportLines(db, caller.org_id, robot_ids, readFilter(query)), params.id);
  });
}

/** Streams lines. The next ones are read from the database after these are sent. */
const ndjson = (lines: AsyncIterable<string>, name: string): Answer<never> =>
  new Answer<never>(200, Readable.from(lines, { highWaterMark: 1 }), {
    "content-type": "application/x-ndjson",
    "content-disposition": `attachment; filename="logs-${name}.ndjson"`,
  });

const readFilter = ({ since, until, level, source, q }: ExportQuery): LogFilter => ({
  since: since === undefined ? undefined : parseTime(since),
  until: until === undefined ? undefined : parseTime(until),
  level,
  source,
  q,
});

async function readLogPage(query: LogQuery, scope: readonly unknown[], scan: BatchScan, filter: LogFilter): Promise<Page<LogRecord>> {
  const { after, encode } = openCursor(query, scope);
  const wanted = query.limit ?? (query.cursor === undefined ? LOG_RECORDS_SHOWN : PAGE_ROWS_MAX);
  const { records, next } = await scanLogs(scan, new LogMatch(filter), after === null ? undefined : parseKey(after), wanted);
  return { items: records.toReversed(), next_cursor: next === undefined ? null : encode(formatKey(next)) };
}

const formatKey = ({ received_at, robot_id, first_seq, seq }: LogKey): string =>
  JSON.stringify([received_at.getTime(), robot_id, first_seq, seq]);

function parseKey(text: string): LogKey {
  try {
    const [ms, robot_id, first_seq, seq] = JSON.parse(text) as unknown[];
    const received_at = new Date(Number(ms));
    if (typeof robot_id === "string" && isCount(first_seq) && isCount(seq) && /^\d{4}-/.test(received_at.toISOString())) {
      return { received_at, robot_id, first_seq, seq };
    }
  } catch {
    // Refused below.
  }
  throw badRequest("cursor is not one that a list answered");
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
