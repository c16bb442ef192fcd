import { Type } from "typebox";
import { Actor, defineRoutes, Entity, Id, ListOf, type Of, page, Time } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

/** Kinds of objects that change events refer to. */
export const CHANGE_KINDS = [
  "robot",
  "fleet",
  "site",
  "release",
  "deployment",
  "target",
  "config_deployment",
  "config_target",
  "config",
  "config_schema",
  "enrollment_key",
  "timeline",
  "shell_session",
  "alert_rule",
  "alert_mute",
  "incident",
  "user",
  "token",
  "org",
  "signing_keys",
  "channel",
  "saved_view",
] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

/** Data of a `change` event. It states that an object changed, but not its new content: clients read the object again. */
export interface Change {
  kind: ChangeKind;
  /** Id of the changed object; for a config schema its namespace. */
  id: string;
  /**
   * What happened: `created`, `updated`, `removed`, or the aspect that changed: `moved`, `presence`, `health`, `config`, `release`,
   * `status`, `progress`, `waves`, `targets`.
   */
  change: string;
  robot_id?: string;
  fleet_id?: string;
  site_id?: string;
  /** The previous fleet of a robot that was moved. */
  from_fleet_id?: string;
  from_site_id?: string;
  /** The deployment to which a changed target belongs. */
  deployment_id?: string;
  status?: string;
}

/**
 * A summary in a `changes` event. It replaces many changes of one kind and contains their number and the fields that all of them share. If
 * `id` or the id of the robot, fleet, site or deployment is absent, any of these may have changed. If `change` is absent, any aspect may
 * have changed.
 */
export interface ChangeSummary extends Partial<Change> {
  kind: ChangeKind;
  count: number;
}

export const eventRoutes = defineRoutes("Events", {
  streamEvents: {
    summary:
      "Stream changes in the org as server-sent events: ready, change, beat, lost (reload all displayed data), end. Last-Event-ID resumes an interrupted stream",
    query: Shape({
      coalesce: Maybe(
        Type.Boolean({
          description:
            "Sends `changes` events instead of `change` events: each lists the newest change of each object, with one summary for many changes of a kind; at most four per second",
        }),
      ),
    }),
    responses: { 200: null },
    produces: "text/event-stream",
  },
});

export const AuditEntry = Entity("AuditEntry", {
  id: Id,
  at: Time,
  actor: Actor,
  token_id: Nullable(Id),
  action: Type.String({ description: "Operation id of the route in this document, or stream.opened and stream.closed" }),
  method: Type.String(),
  path: Type.String({ description: "Path of the request, without its query" }),
  object_id: Nullable(Type.String({ description: "ID of the affected object" })),
  object_name: Maybe(
    Nullable(Type.String({ description: "Current name of the object; null if it was deleted or has no name. Exports omit it" })),
  ),
  status: Nullable(Type.Integer({ description: "HTTP status of the response; close code of a stream" })),
  error: Nullable(Type.String({ description: "Error code of the response; null on success" })),
  ip: Type.String({ description: "Client address of the request" }),
  user_agent: Nullable(Type.String()),
  request_id: Type.String(),
  data: Type.Record(Type.String(), Type.Unknown()),
});
export type AuditEntry = Of<typeof AuditEntry>;

const filter = {
  since: Maybe(Time),
  until: Maybe(Time),
  action: Maybe(Type.String({ minLength: 1, maxLength: 100 })),
  actor_id: Maybe(Id),
  token_id: Maybe(Id),
  object_id: Maybe(Id),
  outcome: Maybe(OneOf(["done", "refused"])),
  changes: Maybe(
    Type.Boolean({ description: "List only requests that change something, and shells, tunnels and file transfers; not what was read" }),
  ),
};
const query = Shape({ ...page, ...filter });

export const auditRoutes = defineRoutes("Audit", {
  listAudit: {
    summary: "List audit entries, newest first",
    query,
    responses: { 200: ListOf(AuditEntry) },
  },
  exportAudit: {
    summary: "Export all audit entries as JSON lines, oldest first",
    query: Shape(filter),
    responses: { 200: null },
    produces: "application/x-ndjson",
  },
  listServiceAudit: {
    summary: "List audit entries of the service itself, newest first",
    tag: "Admin",
    query,
    responses: { 200: ListOf(AuditEntry) },
  },
});
