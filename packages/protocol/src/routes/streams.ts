import { Type } from "typebox";
import { type FleetStreamName, fleetStreamPaths, type StreamName, streamPaths } from "../paths.ts";
import { defineRoute } from "./route.ts";
import { DataOf, Id, Maybe, named, Nullable, OneOf, type Of, Shape, Time } from "./shapes.ts";

const STREAM_NAMES = [...(Object.keys(streamPaths) as StreamName[]), ...(Object.keys(fleetStreamPaths) as FleetStreamName[])];

export const StreamTicket = named(
  "StreamTicket",
  Shape({
    ticket: Nullable(Type.String({ description: "Value for `?ticket=` in the WebSocket URL, shown only once" })),
    robot_id: Nullable(Id),
    fleet_id: Nullable(Id),
    stream: OneOf(STREAM_NAMES),
    expires_at: Time,
  }),
);
export type StreamTicket = Of<typeof StreamTicket>;

export const streamRoutes = {
  createStreamTicket: defineRoute("createStreamTicket", {
    summary: "Create a ticket that opens one stream of a robot or fleet once, within 30 s: for URLs, where a token could be exposed",
    tag: "Robots",
    access: "viewer",
    body: Shape({ robot_id: Maybe(Id), fleet_id: Maybe(Id), stream: OneOf(STREAM_NAMES) }),
    idempotency: "accepted",
    secret_fields: ["ticket"],
    responses: { 201: DataOf(StreamTicket) },
    errors: [404],
  }),
};
