import { Type } from "typebox";
import { ENROLLMENT_KEY_STATUSES } from "../states.ts";
import { logExportQuery, logQuery, LogRecord } from "./robots.ts";
import { Actor, Count, DataOf, defineRoutes, Entity, Id, ListOf, Name, type Of, page, stamps, Time, withoutDefaults } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

export const Site = Entity("Site", { id: Id, name: Type.String(), robot_count: Count, online_count: Count, ...stamps });
export type Site = Of<typeof Site>;

export const Fleet = Entity("Fleet", {
  id: Id,
  name: Type.String(),
  site_id: Id,
  robot_count: Count,
  online_count: Count,
  desired: Type.Record(Type.String(), Shape({ id: Id, tag: Type.String() })),
  config_revision: Nullable(Type.String()),
  follow: Type.Boolean(),
  ...stamps,
});
export type Fleet = Of<typeof Fleet>;

export const EnrollmentKey = Entity("EnrollmentKey", {
  id: Id,
  label: Nullable(Type.String()),
  site_id: Id,
  fleet_id: Id,
  robot_id: Nullable(Id),
  max_uses: Type.Integer({ minimum: 0, description: "0: unlimited" }),
  uses: Count,
  trusted: Type.Boolean({ description: "Robots enrolled with it are approved and get secrets" }),
  expires_at: Nullable(Time),
  status: OneOf(ENROLLMENT_KEY_STATUSES),
  revoked_at: Nullable(Time),
  created_by: Nullable(Actor),
  ...stamps,
});
export type EnrollmentKey = Of<typeof EnrollmentKey>;

export const NewEnrollmentKey = Entity("NewEnrollmentKey", {
  ...EnrollmentKey.properties,
  key: Nullable(Type.String({ description: "The raw key, shown only once" })),
});
export type NewEnrollmentKey = Of<typeof NewEnrollmentKey>;

const siteRoutes = defineRoutes("Sites", {
  listSites: {
    summary: "List sites",
    query: Shape({ ...page, q: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(Site) },
  },
  createSite: {
    summary: "Create a site",
    body: Shape({ name: Name }),
    responses: { 201: DataOf(Site) },
    errors: [409],
  },
  getSite: {
    summary: "Get a site",
    responses: { 200: DataOf(Site) },
  },
  updateSite: {
    summary: "Rename a site",
    body: Shape({ name: Maybe(Name) }),
    responses: { 200: DataOf(Site) },
    errors: [409],
  },
  deleteSite: {
    summary: "Delete an empty site",
    responses: { 200: DataOf(Site) },
    errors: [409],
  },
});

const fleetRoutes = defineRoutes("Fleets", {
  listFleets: {
    summary: "List fleets",
    query: Shape({ ...page, site_id: Maybe(Id), q: Maybe(Type.String({ maxLength: 200 })) }),
    responses: { 200: ListOf(Fleet) },
    errors: [404],
  },
  createFleet: {
    summary: "Create a fleet at a site",
    body: Shape({ name: Name, site_id: Id, follow: Maybe(Type.Boolean()) }),
    sameBody: withoutDefaults({ follow: true }),
    responses: { 201: DataOf(Fleet) },
    errors: [404, 409],
  },
  getFleet: {
    summary: "Get a fleet",
    responses: { 200: DataOf(Fleet) },
  },
  updateFleet: {
    summary: "Change a fleet's name or whether its robots follow its desired release",
    body: Shape({ name: Maybe(Name), follow: Maybe(Type.Boolean()) }),
    responses: { 200: DataOf(Fleet) },
    errors: [409],
  },
  deleteFleet: {
    summary: "Delete an empty fleet",
    responses: { 200: DataOf(Fleet) },
    errors: [409],
  },
  listFleetLogs: {
    summary: "List the latest log records of a fleet's robots, oldest first",
    query: logQuery,
    responses: { 200: ListOf(LogRecord) },
  },
  exportFleetLogs: {
    summary: "Export all log records of a fleet's robots as JSON lines, robot by robot, oldest first",
    query: logExportQuery,
    responses: { 200: null },
    produces: "application/x-ndjson",
    audit: "always",
  },
});

const keyRoutes = defineRoutes("Enrollment", {
  listEnrollmentKeys: {
    summary: "List enrollment keys",
    query: Shape({ ...page, status: Maybe(OneOf(ENROLLMENT_KEY_STATUSES)), fleet_id: Maybe(Id), site_id: Maybe(Id) }),
    responses: { 200: ListOf(EnrollmentKey) },
    errors: [404],
  },
  createEnrollmentKey: {
    summary: "Create an enrollment key; returns the raw key once",
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
          description: "Robots enrolled with it get secrets immediately. Only admins of the whole org may set true, which is their default",
        }),
      ),
    }),
    aliases: { name: "label" },
    secret_fields: ["key"],
    responses: { 201: DataOf(NewEnrollmentKey) },
    errors: [404, 409],
  },
  replaceRobot: {
    summary:
      "Create a key for a robot's replacement computer: for one use within a day; the computer that enrolls with it becomes the robot",
    tag: "Robots",
    secret_fields: ["key"],
    responses: { 201: DataOf(NewEnrollmentKey) },
    errors: [409],
  },
  getEnrollmentKey: {
    summary: "Get an enrollment key",
    responses: { 200: DataOf(EnrollmentKey) },
  },
  revokeEnrollmentKey: {
    summary: "Revoke an enrollment key; robots enrolled with it stay",
    body: Shape({}),
    responses: { 200: DataOf(EnrollmentKey) },
    errors: [409],
  },
});

export const placeRoutes = { ...siteRoutes, ...fleetRoutes, ...keyRoutes };
