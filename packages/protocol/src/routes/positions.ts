import { Type } from "typebox";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";
import { ROBOT_STATUSES } from "../states.ts";
import { defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";

const Coordinate = (description: string) => Nullable(Type.Number({ description }));
const Status = OneOf(ROBOT_STATUSES.filter((status) => status !== "decommissioned"));

/** A robot and its last position. */
export const RobotPosition = Entity("RobotPosition", {
  id: Id,
  name: Type.String(),
  site_id: Id,
  fleet_id: Id,
  status: Status,
  status_since: Nullable(Time),
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

export const positionRoutes = defineRoutes("Robots", {
  listPositions: {
    summary: "List robots with their last positions",
    query: Shape({
      ...page,
      site_id: Maybe(Id),
      fleet_id: Maybe(Id),
      status: Maybe(Status),
      known: Maybe(Type.Boolean({ description: "true: only robots with a position; false: only robots without one" })),
    }),
    responses: { 200: ListOf(RobotPosition) },
    errors: [404],
  },
});
