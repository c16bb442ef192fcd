import { type FloorPlan, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { badRequest, found } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { deleteFloorPlan, findFloorPlan, type FloorPlanRow, putFloorPlan } from "./store-floor-plan.ts";
import { findSite, shareSite } from "./store.ts";

export function floorPlanRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getFloorPlan, async (_, { params, caller, db }) => {
    const plan = await findFloorPlan(db, caller.org_id, params.id);
    if (plan !== undefined) return { data: toWire(plan) };
    found(await findSite(db, caller, params.id), "site", params.id);
    return { data: null };
  });

  serve(http, plane, routes.putFloorPlan, async (_, { params, body, caller, db, audit }) => {
    const image = Buffer.from(body.image, "base64");
    const content_type = contentTypeOf(image);
    if (content_type === undefined) throw badRequest("image is no PNG, JPEG or WebP image in base64");
    const { meters_per_pixel, origin_x_meters = 0, origin_y_meters = 0 } = body;
    found(await shareSite(db, caller.org_id, params.id), "site", params.id);
    const plan = {
      site_id: params.id,
      content_type,
      image,
      meters_per_pixel,
      origin_x_meters,
      origin_y_meters,
      updated_at: plane.clock.now(),
    };
    await putFloorPlan(db, caller.org_id, plan);
    announce(db, plane, caller.org_id, { kind: "site", id: params.id, change: "updated" });
    audit.data = { content_type, bytes: image.length, meters_per_pixel, origin_x_meters, origin_y_meters };
    return { data: toWire(plan) };
  });

  serve(http, plane, routes.deleteFloorPlan, async (_, { params, caller, db }) => {
    found(await shareSite(db, caller.org_id, params.id), "site", params.id);
    if ((await deleteFloorPlan(db, caller.org_id, params.id)) > 0)
      announce(db, plane, caller.org_id, { kind: "site", id: params.id, change: "updated" });
    return { data: null };
  });
}

const toWire = ({ image, updated_at, ...plan }: FloorPlanRow): FloorPlan => ({
  ...plan,
  image: image.toString("base64"),
  updated_at: wireTime(updated_at),
});

/**
 * Returns the type of an image by its first bytes; undefined for other files. SVG is refused: it may contain scripts and load other files.
 */
function contentTypeOf(image: Buffer): FloorPlan["content_type"] | undefined {
  if (image.subarray(0, 8).equals(Buffer.from("\x89PNG\r\n\x1a\n", "latin1"))) return "image/png";
  if (image.subarray(0, 3).equals(Buffer.from("\xff\xd8\xff", "latin1"))) return "image/jpeg";
  if (image.toString("latin1", 0, 4) === "RIFF" && image.toString("latin1", 8, 12) === "WEBP") return "image/webp";
  return undefined;
}
