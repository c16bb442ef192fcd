import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { Actor, Id, ListOf, Maybe, named, Nullable, OneOf, type Of, page, Shape, Time } from "./shapes.ts";

export const AuditEntry = named(
  "AuditEntry",
  Shape({
    id: Id,
    at: Time,
    actor: Actor,
    token_id: Nullable(Id),
    action: Type.String({ description: "Operation id of the route in this document, or stream.opened and stream.closed" }),
    method: Type.String(),
    path: Type.String({ description: "Path of the request, without its query" }),
    object_id: Nullable(Type.String({ description: "Id of the affected object" })),
    status: Nullable(Type.Integer({ description: "HTTP status of the response; close code of a stream" })),
    error: Nullable(Type.String({ description: "Error code of the response; null on success" })),
    ip: Type.String({ description: "Client address of the request" }),
    user_agent: Nullable(Type.String()),
    request_id: Type.String(),
    data: Type.Record(Type.String(), Type.Unknown()),
  }),
);
export type AuditEntry = Of<typeof AuditEntry>;

const filter = {
  since: Maybe(Time),
  until: Maybe(Time),
  action: Maybe(Type.String({ minLength: 1, maxLength: 100 })),
  actor_id: Maybe(Id),
  token_id: Maybe(Id),
  object_id: Maybe(Id),
  outcome: Maybe(OneOf(["done", "refused"])),
};
const query = Shape({ ...page, ...filter });

export const auditRoutes = {
  listAudit: defineRoute("listAudit", {
    summary: "List audit entries, newest first",
    tag: "Audit",
    access: "admin",
    query,
    responses: { 200: ListOf(AuditEntry) },
  }),
  exportAudit: defineRoute("exportAudit", {
    summary: "Export all audit entries as JSON lines, oldest first",
    tag: "Audit",
    access: "admin",
    query: Shape(filter),
    responses: { 200: null },
    produces: "application/x-ndjson",
  }),
  listServiceAudit: defineRoute("listServiceAudit", {
    summary: "List audit entries of the service itself, newest first",
    tag: "Admin",
    access: "service_admin",
    query,
    responses: { 200: ListOf(AuditEntry) },
  }),
};
