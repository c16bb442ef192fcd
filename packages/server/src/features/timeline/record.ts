import type { Clock, IdSource } from "@roamfleet/clock";
import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { announce } from "../events/index.ts";
import { insertEntries } from "./store.ts";

export interface TimelineRecord {
  org_id: string;
  robot_id: string;
  /** `<resource>.<past participle>`, for example `robot.connected` or `deployment.applied`. */
  kind: string;
  actor: Actor;
  /** One sentence for users. */
  summary: string;
  data?: Record<string, unknown>;
}

type Stamps = { id: IdSource; clock: Pick<Clock, "now"> } & Parameters<typeof announce>[1];

/** Writes one entry on a robot's timeline, in the transaction of the change that it describes. */
export const recordTimeline = (db: Db, plane: Stamps, record: TimelineRecord): Promise<void> => recordTimelineMany(db, plane, [record]);

/** The same for many robots, in one statement. */
export async function recordTimelineMany(db: Db, plane: Stamps, records: readonly TimelineRecord[]): Promise<void> {
  if (records.length === 0) return;
  const at = plane.clock.now();
  const entries = records.map((record) => ({ ...record, data: record.data ?? {}, id: plane.id(ID_PREFIXES.event), at }));
  await insertEntries(db, entries);
  for (const [org_id, own] of Map.groupBy(entries, (entry) => entry.org_id))
    announce(
      db,
      plane,
      org_id,
      own.map(({ id, robot_id }) => ({ kind: "timeline", id, change: "created", robot_id })),
    );
}
