import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { withoutDefaults } from "./same-body.ts";
import {
  Actor,
  Count,
  DataOf,
  Id,
  IdParams,
  ListOf,
  Maybe,
  Name,
  named,
  Nullable,
  OneOf,
  type Of,
  page,
  Shape,
  stamps,
  Time,
} from "./shapes.ts";
import { LogRecord, logExportQuery, logQuery } from "./robots.ts";

export const Site = named("Site", Shape({ id: Id, name: Type.String(), robot_count: Count, online_count: Count, ...stamps }));
export type Site = Of<typeof Site>;

export const Fleet = named(
  "Fleet",
  Shape({
    id: Id,
    name: Type.String(),
    site_id: Id,
    robot_count: Count,
    online_count: Count,
    desired: Type.Record(Type.String(), Shape({ id: Id, tag: Type.String() })),
    config_revision: Nullable(Type.String()),
    follow: Type.Boolean(),
    ...stamps,
  }),
);
export type Fleet = Of<typeof Fleet>;

export const EnrollmentKey = named(
  "EnrollmentKey",
  Shape({
    id: Id,
    label: Nullable(Type.String()),
    site_id: Id,
    fleet_id: Id,
    robot_id: Nullable(Id),
    max_uses: Type.Integer({ minimum: 0, description: "0: unlimited" }),
    uses: Count,
    trusted: Type.Boolean({ description: "Robots enrolled with it are approved and get secrets" }),
    expires_at: Nullable(Time),
    status: OneOf(["active", "expired", "exhausted", "revoked"]),
    revoked_at: Nullable(Time),
    created_by: Nullable(Actor),
    ...stamps,
  }),
);
export type EnrollmentKey = Of<typeof EnrollmentKey>;

export const NewEnrollmentKey = named(
  "NewEnrollmentKey",
  Shape({ ...EnrollmentKey.properties, key: Nullable(Type.String({ description: "The raw key, shown only once" })) }),
);
export type NewEnrollmentKey = Of<typeof NewEnrollmentKey>;

const siteRoutes = {
  listSites: defineRoute("listSites", {
    summary: "List sites",
    tag: "Sites",
    access: "viewer",
    query: Shape({ ...page, q: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(Site) },
  }),
  createSite: defineRoute("createSite", {
    summary: "Create a site",
    tag: "Sites",
    access: "operator",
    body: Shape({ name: Name }),
    idempotency: "accepted",
    responses: { 201: DataOf(Site) },
    errors: [409],
  }),
  getSite: defineRoute("getSite", {
    summary: "Get a site",
    tag: "Sites",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(Site) },
  }),
  updateSite: defineRoute("updateSite", {
    summary: "Rename a site",
    tag: "Sites",
    access: "operator",
    params: IdParams,
    body: Shape({ name: Maybe(Name) }),
    responses: { 200: DataOf(Site) },
    errors: [409],
  }),
  deleteSite: defineRoute("deleteSite", {
    summary: "Delete an empty site",
    tag: "Sites",
    access: "admin",
    params: IdParams,
    responses: { 200: DataOf(Site) },
    errors: [409],
  }),
};

const fleetRoutes = {
  listFleets: defineRoute("listFleets", {
    summary: "List fleets",
    tag: "Fleets",
    access: "viewer",
    query: Shape({ ...page, site_id: Maybe(Id), q: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(Fleet) },
    errors: [404],
  }),
  createFleet: defineRoute("createFleet", {
    summary: "Create a fleet at a site",
    tag: "Fleets",
    access: "operator",
    body: Shape({ name: Name, site_id: Id, follow: Maybe(Type.Boolean()) }),
    idempotency: "accepted",
    sameBody: withoutDefaults({ follow: true }),
    responses: { 201: DataOf(Fleet) },
    errors: [404, 409],
  }),
  getFleet: defineRoute("getFleet", {
    summary: "Get a fleet",
    tag: "Fleets",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(Fleet) },
  }),
  updateFleet: defineRoute("updateFleet", {
    summary: "Change a fleet's name or whether its robots follow its desired release",
    tag: "Fleets",
    access: "operator",
    params: IdParams,
    body: Shape({ name: Maybe(Name), follow: Maybe(Type.Boolean()) }),
    responses: { 200: DataOf(Fleet) },
    errors: [409],
  }),
  deleteFleet: defineRoute("deleteFleet", {
    summary: "Delete an empty fleet",
    tag: "Fleets",
    access: "admin",
    params: IdParams,
    responses: { 200: DataOf(Fleet) },
    errors: [409],
  }),
  listFleetLogs: defineRoute("listFleetLogs", {
    summary: "List the latest log records of a fleet's robots, oldest first",
    tag: "Fleets",
    access: "viewer",
    params: IdParams,
    query: logQuery,
    responses: { 200: ListOf(LogRecord) },
  }),
  exportFleetLogs: defineRoute("exportFleetLogs", {
    summary: "Export all log records of a fleet's robots as JSON lines, robot by robot, oldest first",
    tag: "Fleets",
    access: "viewer",
    params: IdParams,
    query: logExportQuery,
    responses: { 200: null },
    produces: "application/x-ndjson",
    audit: "always",
  }),
};

const keyRoutes = {
  listEnrollmentKeys: defineRoute("listEnrollmentKeys", {
    summary: "List enrollment keys",
    tag: "Enrollment",
    access: "viewer",
    query: Shape({ ...page, status: Maybe(OneOf(["active", "expired", "exhausted", "revoked"])), fleet_id: Maybe(Id), site_id: Maybe(Id) }),
    responses: { 200: ListOf(EnrollmentKey) },
    errors: [404],
  }),
  createEnrollmentKey: defineRoute("createEnrollmentKey", {
    summary: "Create an enrollment key; returns the raw key once",
    tag: "Enrollment",
    access: "operator",
    body: Shape({
      site_id: Id,
      fleet_id: Id,
      label: Maybe(Name),
      max_uses: Maybe(
        Type.Integer({
          minimum: 0,
          maximum: 10_000_000,
          description: "Number of robots that may enroll with it; 0: unlimited",
          default: 100,
        }),
      ),
      expires_in_hours: Maybe(Type.Integer({ minimum: 0, maximum: 87_600, description: "0: never", default: 24 })),
      trusted: Maybe(
        Type.Boolean({
          description: "Robots enrolled with it get secrets immediately; only for admins of the whole org, and their default",
        }),
      ),
    }),
    aliases: { name: "label" },
    idempotency: "accepted",
    secret_fields: ["key"],
    responses: { 201: DataOf(NewEnrollmentKey) },
    errors: [404, 409],
  }),
  replaceRobot: defineRoute("replaceRobot", {
    summary:
      "Create a key for a robot's replacement computer: for one use within a day; the computer that enrolls with it becomes the robot",
    tag: "Robots",
    access: "operator",
    params: IdParams,
    idempotency: "accepted",
    secret_fields: ["key"],
    responses: { 201: DataOf(NewEnrollmentKey) },
    errors: [409],
  }),
  getEnrollmentKey: defineRoute("getEnrollmentKey", {
    summary: "Get an enrollment key",
    tag: "Enrollment",
    access: "viewer",
    params: IdParams,
    responses: { 200: DataOf(EnrollmentKey) },
  }),
  revokeEnrollmentKey: defineRoute("revokeEnrollmentKey", {
    summary: "Revoke an enrollment key; robots enrolled with it stay",
    tag: "Enrollment",
    access: "operator",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    responses: { 200: DataOf(EnrollmentKey) },
    errors: [409],
  }),
};

export const placeRoutes = { ...siteRoutes, ...fleetRoutes, ...keyRoutes };
