import type { RobotPosition } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { limited, MAX_ID, type Window } from "../../kernel/page.ts";
import {
  equals,
  float,
  json,
  jsonb,
  nullable,
  type RowOf,
  sql,
  type Statement,
  text,
  textOf,
  timestamptz,
  wiredRow,
} from "../../kernel/sql.ts";
import type { Position } from "./position.ts";

/** Minimum time between two stored positions of a robot. More frequent ones are not written. */
const POSITION_INTERVAL_MS = 10_000;

/** Stores positions of distinct robots in one statement. A position that is older than the stored one is ignored. */
export const putPositions = (db: Db, org_id: string, positions: readonly (Position & { robot_id: string })[]): Promise<number> =>
  db.run(sql`
    insert into robot_position as p (org_id, robot_id, at, latitude_degrees, longitude_degrees, x_meters, y_meters, heading_degrees)
    select ${org_id}, robot_id, at, latitude_degrees, longitude_degrees, x_meters, y_meters, heading_degrees
    from jsonb_to_recordset(${json(positions)}::jsonb) as v (robot_id text, at timestamptz, latitude_degrees float8, longitude_degrees float8,
      x_meters float8, y_meters float8, heading_degrees float8)
    -- locks rows in one order, so that concurrent calls do not deadlock
    order by robot_id
    on conflict (org_id, robot_id) do update set at = excluded.at, latitude_degrees = excluded.latitude_degrees,
      longitude_degrees = excluded.longitude_degrees, x_meters = excluded.x_meters, y_meters = excluded.y_meters,
      heading_degrees = excluded.heading_degrees
    where excluded.at >= p.at + ${POSITION_INTERVAL_MS}::int * interval '1 millisecond'`);

const positionRow = wiredRow({
  id: text,
  name: text,
  site_id: text,
  fleet_id: text,
  status: textOf<"online" | "offline" | "never_connected">(),
  status_since: nullable(timestamptz),
  health: textOf<RobotPosition["health"]>(),
  failing: jsonb<string[]>(),
  at: nullable(timestamptz),
  latitude_degrees: nullable(float),
  longitude_degrees: nullable(float),
  x_meters: nullable(float),
  y_meters: nullable(float),
  heading_degrees: nullable(float),
});
export type PositionRow = RowOf<typeof positionRow>;

export interface PositionFilter {
  site_id?: string;
  fleet_id?: string;
  robot_id?: string;
  status?: PositionRow["status"];
  known?: boolean;
}

const STATUSES: Record<PositionRow["status"] | "any", Statement<unknown>> = {
  any: sql``,
  online: sql`and r.node_id is not null`,
  offline: sql`and r.node_id is null and r.last_seen_at is not null`,
  never_connected: sql`and r.last_seen_at is null and r.connected_at is null`,
};
/** Lists robots that the caller may see, newest first, with their last positions and health. */
export const listPositions = (
  db: Db,
  caller: Caller,
  { site_id, fleet_id, robot_id, status, known }: PositionFilter,
  { after, limit }: Window,
): Promise<PositionRow[]> =>
  db.many(
    sql(positionRow)`${limited(
      sql`-- reads tables of other features: robot, health_snapshot
        select r.id, r.name, r.site_id, r.fleet_id,
          case when r.node_id is not null then 'online' when r.last_seen_at is null then 'never_connected' else 'offline' end as status,
          case when r.node_id is not null then r.connected_at else r.last_seen_at end as status_since,
          coalesce(h.state, 'unknown') as health, coalesce(h.failing, '[]') as failing,
          p.at, p.latitude_degrees, p.longitude_degrees, p.x_meters, p.y_meters, p.heading_degrees
        from robot r ${known === true ? sql`join` : sql`left join`} robot_position p on p.org_id = r.org_id and p.robot_id = r.id
          left join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id
        where r.org_id = ${caller.org_id} and r.decommissioned_at is null and r.id < ${after ?? MAX_ID} ${STATUSES[status ?? "any"]}
          ${equals({ "r.site_id": site_id, "r.fleet_id": fleet_id, "r.id": robot_id })}
          ${known === false ? sql`and p.robot_id is null` : sql``} ${visible(caller, "r.site_id", "r.fleet_id")}
        order by r.id desc`,
      limit,
    )}`,
  );
