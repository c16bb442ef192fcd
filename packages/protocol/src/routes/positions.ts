import { Type } from "typebox";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { HEALTH_STATES, ROBOT_STATUSES } from "../states.ts";
import { DataOf, defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";

const Coordinate = (description: string) => Nullable(Type.Number({ description }));
const Status = OneOf(ROBOT_STATUSES.filter((status) => status !== "decommissioned"));

/** A robot with its last position and health. */
export const RobotPosition = Entity("RobotPosition", {
  id: Id,
  name: Type.String(),
  site_id: Id,
  fleet_id: Id,
  status: Status,
  status_since: Nullable(Time),
  health: OneOf(HEALTH_STATES, "As last reported by the robot; unknown: never reported"),
  failing: Type.Array(Type.String(), { description: "Descriptions of failing checks" }),
  position: Nullable(
    Shape({
      at: Time,
      latitude_degrees: Coordinate("WGS 84; null together with the longitude"),
      longitude_degrees: Coordinate("WGS 84"),
      x_meters: Coordinate("In the frame of the site's floor plan; null together with y"),
      y_meters: Coordinate("In the frame of the site's floor plan"),
      heading_degrees: Coordinate("As reported: clockwise from north, or counterclockwise from the x axis of the floor plan"),
    }),
  ),
});
export type RobotPosition = Of<typeof RobotPosition>;

/** Maximum characters of a floor plan's image in base64: 705,000 bytes. */
const IMAGE_CHARACTERS_MAX = 940_000;
const METERS_MAX = 1_000_000;
const Origin = Type.Number({ minimum: -METERS_MAX, maximum: METERS_MAX, description: "Position of the lower left corner" });

export const FloorPlan = Entity("FloorPlan", {
  site_id: Id,
  content_type: OneOf(["image/png", "image/jpeg", "image/webp"]),
  image: Type.String({ description: "Base64" }),
  meters_per_pixel: Type.Number(),
  origin_x_meters: Type.Number(),
  origin_y_meters: Type.Number(),
  updated_at: Time,
});
export type FloorPlan = Of<typeof FloorPlan>;

export const floorPlanRoutes = defineRoutes("Sites", {
  getFloorPlan: {
    summary: "Get the floor plan of a site; null without one",
    responses: { 200: DataOf(Nullable(FloorPlan)) },
  },
  putFloorPlan: {
    summary: "Store the floor plan of a site, or replace it",
    body: Shape({
      image: Type.String({
        minLength: 1,
        maxLength: IMAGE_CHARACTERS_MAX,
        description: "A PNG, JPEG or WebP image in base64",
      }),
      meters_per_pixel: Type.Number({ minimum: 0.0001, maximum: 1_000 }),
      origin_x_meters: Maybe(Origin),
      origin_y_meters: Maybe(Origin),
    }),
    responses: { 200: DataOf(FloorPlan) },
  },
  deleteFloorPlan: {
    summary: "Delete the floor plan of a site, if there is one",
    responses: { 200: DataOf(Type.Null()) },
  },
});

export const positionRoutes = defineRoutes("Robots", {
  listPositions: {
    summary: "List robots with their last positions",
    query: Shape({
      ...page,
      site_id: Maybe(Id),
      fleet_id: Maybe(Id),
      robot_id: Maybe(Id),
      status: Maybe(Status),
      known: Maybe(Type.Boolean({ description: "true: only robots with a position; false: only robots without one" })),
    }),
    responses: { 200: ListOf(RobotPosition) },
    errors: [404],
  },
});
