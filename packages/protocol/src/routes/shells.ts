import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { Actor, Count, DataOf, Id, IdParams, ListOf, Maybe, named, Nullable, OneOf, type Of, page, Shape, Time } from "./shapes.ts";

export const ShellSession = named(
  "ShellSession",
  Shape({
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
  }),
);
export type ShellSession = Of<typeof ShellSession>;

export const RobotShellSession = named("RobotShellSession", Shape({ ...ShellSession.properties, robot_name: Type.String() }));
export type RobotShellSession = Of<typeof RobotShellSession>;

export const shellRoutes = {
  listShellSessions: defineRoute("listShellSessions", {
    summary: "List the shell sessions of a robot, newest first",
    tag: "Shells",
    access: "viewer",
    params: IdParams,
    query: Shape(page),
    responses: { 200: ListOf(ShellSession) },
  }),
  listAllShellSessions: defineRoute("listAllShellSessions", {
    summary: "List the shell sessions of all robots, newest first",
    tag: "Shells",
    access: "viewer",
    query: Shape({ ...page, robot_id: Maybe(Id), actor_id: Maybe(Id), status: Maybe(OneOf(["open", "ended", "aborted"])) }),
    responses: { 200: ListOf(RobotShellSession) },
    errors: [404],
  }),
  getShellSession: defineRoute("getShellSession", {
    summary: "Get a shell session",
    tag: "Shells",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(ShellSession) },
  }),
  getShellRecording: defineRoute("getShellRecording", {
    summary: "Get a shell's recording as asciinema v2",
    tag: "Shells",
    access: "admin",
    params: IdParams,
    responses: { 200: null },
    produces: "application/x-asciicast",
    audit: "on_change_of_state",
  }),
};
