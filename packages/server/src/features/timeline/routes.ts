import { routes, type TimelineEntry } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { PAGE_ROWS_MAX, readPage } from "../../kernel/page.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTime, wireTime } from "../../kernel/time.ts";
import { type EntryRow, fleetExists, robotExists, selectEntries, selectOrgEntries } from "./store.ts";

/** Entries of an answer when the request says neither `limit` nor `cursor`. */
const TIMELINE_ENTRIES_SHOWN = 200;

const toWire = (row: EntryRow): TimelineEntry => ({ ...row, at: wireTime(row.at) });

export function timelineRoutes(http: Http, plane: Plane): void {
  const route = routes.listRobotTimeline;
  serve(http, plane, route, async (_plane, { caller, params, query, db }) => {
    if (!(await robotExists(db, caller.org_id, params.id))) throw notFound("robot", params.id);
    const filter = {
      kind: query.kind,
      since: query.since === undefined ? undefined : parseTime(query.since),
      until: query.until === undefined ? undefined : parseTime(query.until),
    };
    return await readPage(
      { ...query, limit: query.limit ?? (query.cursor === undefined ? TIMELINE_ENTRIES_SHOWN : PAGE_ROWS_MAX) },
      [route.name, caller.org_id, params.id],
      (window) => selectEntries(db, caller.org_id, params.id, filter, window),
      (entry) => entry.id,
      toWire,
    );
  });

  const all = routes.listTimeline;
  serve(http, plane, all, async (_plane, { caller, query, db }) => {
    const { org_id } = caller;
    if (query.robot_id !== undefined && !(await robotExists(db, org_id, query.robot_id))) throw notFound("robot", query.robot_id);
    if (query.fleet_id !== undefined && !(await fleetExists(db, org_id, query.fleet_id))) throw notFound("fleet", query.fleet_id);
    const filter = {
      ...query,
      since: query.since === undefined ? undefined : parseTime(query.since),
      until: query.until === undefined ? undefined : parseTime(query.until),
    };
    return await readPage(
      { ...query, limit: query.limit ?? (query.cursor === undefined ? TIMELINE_ENTRIES_SHOWN : PAGE_ROWS_MAX) },
      [all.name, org_id],
      (window) => selectOrgEntries(db, caller, filter, window),
      (entry) => entry.id,
      (row) => ({ ...row, at: wireTime(row.at) }),
    );
  });
}
