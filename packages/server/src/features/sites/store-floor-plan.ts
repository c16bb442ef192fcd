import type { FloorPlan } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { bytea, float, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

const planRow = row({
  site_id: text,
  content_type: textOf<FloorPlan["content_type"]>(),
  image: bytea,
  meters_per_pixel: float,
  origin_x_meters: float,
  origin_y_meters: float,
  updated_at: timestamptz,
});
export type FloorPlanRow = RowOf<typeof planRow>;

export const findFloorPlan = (db: Db, org_id: string, site_id: string): Promise<FloorPlanRow | undefined> =>
  db.maybe(sql(planRow)`select ${planRow} from site_floor_plan where org_id = ${org_id} and site_id = ${site_id}`);

/** Stores the floor plan of a site, and replaces an earlier one. */
export const putFloorPlan = (db: Db, org_id: string, plan: FloorPlanRow): Promise<number> =>
  db.run(sql`
    insert into site_floor_plan (org_id, site_id, content_type, image, meters_per_pixel, origin_x_meters, origin_y_meters, updated_at)
    values (${org_id}, ${plan.site_id}, ${plan.content_type}, ${plan.image}, ${plan.meters_per_pixel}, ${plan.origin_x_meters},
      ${plan.origin_y_meters}, ${plan.updated_at})
    on conflict (org_id, site_id) do update set content_type = excluded.content_type, image = excluded.image,
      meters_per_pixel = excluded.meters_per_pixel, origin_x_meters = excluded.origin_x_meters,
      origin_y_meters = excluded.origin_y_meters, updated_at = excluded.updated_at`);

export const deleteFloorPlan = (db: Db, org_id: string, site_id: string): Promise<number> =>
  db.run(sql`delete from site_floor_plan where org_id = ${org_id} and site_id = ${site_id}`);
