import type { Clock, IdSource } from "@roamfleet/clock";
import { ID_PREFIXES } from "@roamfleet/protocol";
import { type Actor, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import type { Db } from "../../kernel/db.ts";
import { found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readHistory } from "../../kernel/page.ts";
import { deleteIsolated, forEachOrg, listOrgIds } from "../../kernel/retention.ts";
import { serve } from "../../kernel/serve.ts";
import { parseTimes } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { deleteEntries, insertingEntries, selectEntries, selectOrgEntries } from "./store.ts";

export { countEntries as countTimeline } from "./store.ts";

export function timelineRoutes(http: Http, plane: Plane): void {
  const route = routes.listRobotTimeline;
  serve(http, plane, route, async (_plane, { caller: { org_id }, params, query, db }) => {
    await requireObject(plane, db, org_id, "robot", params.id);
    const filter = parseTimes(query);
    return await readHistory(query, [route.name, org_id, params.id], (window) => selectEntries(db, org_id, params.id, filter, window));
  });

  const all = routes.listTimeline;
  serve(http, plane, all, async (_plane, { caller, query, db }) => {
    const { org_id } = caller;
    if (query.robot_id !== undefined) await requireObject(plane, db, org_id, "robot", query.robot_id);
    if (query.fleet_id !== undefined) await requireObject(plane, db, org_id, "fleet", query.fleet_id);
    if (query.site_id !== undefined) await requireObject(plane, db, org_id, "site", query.site_id);
    const filter = parseTimes(query);
    return await readHistory(query, [all.name, org_id], (window) => selectOrgEntries(db, caller, filter, window));
  });
}

async function requireObject({ findPlaces }: Plane, db: Db, org_id: string, kind: "robot" | "fleet" | "site", id: string): Promise<void> {
  found((await findPlaces(db, org_id, kind, [id], [])).get(id), kind, id);
}

export interface TimelineRecord {
  org_id: string;
  robot_id: string;
  /** The kind of the entry: `<resource>.<past participle>`, such as `robot.connected` or `deployment.applied`. */
  kind: string;
  actor: Actor;
  /** One sentence that describes the entry to users. */
  summary: string;
  data?: Record<string, unknown>;
}

type Stamps = { id: IdSource; clock: Pick<Clock, "now"> } & Parameters<typeof announce>[1];

/** Writes one entry to a robot's timeline. `db` must be the transaction of the change that the entry describes. */
export const recordTimeline = (db: Db, plane: Stamps, record: TimelineRecord): Promise<void> => recordTimelineMany(db, plane, [record]);

/**
 * Writes the timeline entries of many robots in one statement. `db` must be the transaction of the changes that the entries describe. With
 * `at_commit` it does not wait for a result, and the transaction does not find the entries.
 */
export async function recordTimelineMany(
  db: Db,
  plane: Stamps,
  records: readonly TimelineRecord[],
  { at_commit = false } = {},
): Promise<void> {
  if (records.length === 0) return;
  const at = plane.clock.now();
  const entries = records.map((record) => ({ ...record, data: record.data ?? {}, id: plane.id(ID_PREFIXES.event), at }));
  const statement = insertingEntries(entries);
  await (at_commit ? db.atCommit(statement) : db.run(statement));
  for (const { org_id, id, robot_id } of entries) announce(db, plane, org_id, { kind: "timeline", id, change: "created", robot_id });
}

/** Deletes the timeline entries of all robots that are older than `before`. */
export async function dropTimelineEntries({ db, log }: Pick<Plane, "db" | "log">, before: Date): Promise<void> {
  await forEachOrg({ log }, "timeline", await listOrgIds(db), async (org_id) => {
    const entries = await deleteIsolated(isOutage, (limit, offset) => deleteEntries(db, org_id, before, limit, offset));
    if (entries > 0) log.info({ org_id, entries, before: before.toISOString() }, "deleted old timeline entries");
  });
}
