import { Type } from "typebox";
import { type FleetStreamName, fleetStreamPaths, type StreamName, streamPaths } from "../paths.ts";
import { Actor, Count, DataOf, defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

const STREAM_NAMES = [...(Object.keys(streamPaths) as StreamName[]), ...(Object.keys(fleetStreamPaths) as FleetStreamName[])];

export const StreamTicket = Entity("StreamTicket", {
  ticket: Nullable(Type.String({ description: "Value for `?ticket=` in the WebSocket URL, shown only once" })),
  robot_id: Nullable(Id),
  fleet_id: Nullable(Id),
  stream: OneOf(STREAM_NAMES),
  expires_at: Time,
});
export type StreamTicket = Of<typeof StreamTicket>;

export const streamRoutes = defineRoutes("Robots", {
  createStreamTicket: {
    summary: "Create a ticket that opens one stream within 30 s, for use in a URL instead of a token",
    body: Shape({ robot_id: Maybe(Id), fleet_id: Maybe(Id), stream: OneOf(STREAM_NAMES) }),
    secret_fields: ["ticket"],
    responses: { 201: DataOf(StreamTicket) },
    errors: [404],
  },
});

export const ShellSession = Entity("ShellSession", {
  id: Id,
  robot_id: Id,
  actor: Actor,
  ip: Type.String({ description: "Client address that opened the shell" }),
  app: Nullable(Type.String({ description: "App in which the shell ran; null: on the robot itself" })),
  program: Nullable(Type.String({ description: "Program run instead of a login shell, without its arguments" })),
  terminal: Type.Boolean(),
  status: OneOf(["open", "ended", "aborted"]),
  exit_code: Nullable(Type.Integer()),
  reason: Nullable(Type.String({ description: "Reason of the end: exit, viewer_left, agent_offline, server_lost, …" })),
  started_at: Time,
  ended_at: Nullable(Type.String({ format: "date-time", description: "null while it is open, or if the end was not observed" })),
  output_bytes: Count,
  recording: Shape({ status: OneOf(["kept", "dropped"]), bytes: Count }),
});
export type ShellSession = Of<typeof ShellSession>;

export const RobotShellSession = Entity("RobotShellSession", { ...ShellSession.properties, robot_name: Type.String() });
export type RobotShellSession = Of<typeof RobotShellSession>;

export const shellRoutes = defineRoutes("Shells", {
  listShellSessions: {
    summary: "List the shell sessions of a robot, newest first",
    query: Shape(page),
    responses: { 200: ListOf(ShellSession) },
  },
  listAllShellSessions: {
    summary: "List the shell sessions of all robots, newest first",
    query: Shape({ ...page, robot_id: Maybe(Id), actor_id: Maybe(Id), status: Maybe(OneOf(["open", "ended", "aborted"])) }),
    responses: { 200: ListOf(RobotShellSession) },
    errors: [404],
  },
  getShellSession: {
    summary: "Get a shell session",
    responses: { 200: DataOf(ShellSession) },
  },
  getShellRecording: {
    summary: "Get a shell's recording as asciinema v2",
    responses: { 200: null },
    produces: "application/x-asciicast",
    audit: "on_change_of_state",
  },
});
