import { Type } from "typebox";
import { Count, DataOf, defineRoutes, Email, Entity, Id, ListOf, Name, type Of, page, stamps } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

const ORG_STATUSES = ["pending", "active", "suspended"] as const;
const email = Nullable(Type.String({ description: "Address of the person who requested the org" }));

export const Org = Entity("Org", { id: Id, name: Type.String(), email, status: OneOf(ORG_STATUSES), ...stamps });
export type Org = Of<typeof Org>;

export const ApprovedOrg = Entity("ApprovedOrg", {
  id: Id,
  name: Type.String(),
  email,
  status: OneOf(["active"]),
  ...stamps,
  token: Nullable(Type.String({ description: "The bootstrap token, shown only once" })),
});
export type ApprovedOrg = Of<typeof ApprovedOrg>;

const DEPLOYMENT_EXPIRES_DAYS_MAX = 365;

/** An org as visible to its members. */
export const OwnOrg = Entity("OwnOrg", {
  id: Id,
  name: Type.String(),
  status: OneOf(ORG_STATUSES),
  settings: Shape({
    deployment_expires_days: Nullable(
      Type.Integer({
        description:
          "Days after its start when a deployment expires: targets that have not begun to install are then cancelled; null: the server's default",
      }),
    ),
  }),
  ...stamps,
});
export type OwnOrg = Of<typeof OwnOrg>;

export const Stats = Entity("Stats", {
  orgs: Shape({ total: Count, pending: Count, active: Count, suspended: Count }),
  robots: Shape({ total: Count, online: Count }),
  deployments: Shape({ scheduled: Count, running: Count }),
  database: Shape({ size_bytes: Count }),
});
export type Stats = Of<typeof Stats>;

const ownOrgRoutes = defineRoutes("People", {
  getOrg: {
    summary: "Get the token's org and its settings",
    responses: { 200: DataOf(OwnOrg) },
  },
  updateOrg: {
    summary: "Rename the org or change its settings",
    body: Shape({
      name: Maybe(Name),
      settings: Maybe(
        Shape({
          deployment_expires_days: Maybe(
            Type.Integer({ minimum: 0, maximum: DEPLOYMENT_EXPIRES_DAYS_MAX, description: "0: the server's default" }),
          ),
        }),
      ),
    }),
    responses: { 200: DataOf(OwnOrg) },
    errors: [409],
  },
  requestOrg: {
    summary: "Request an org; it is pending until the service's admin approves it",
    body: Shape({ name: Name, email: Email }),
    responses: { 202: DataOf(Org) },
    errors: [403, 409],
  },
});

const adminRoutes = defineRoutes("Admin", {
  listOrgs: {
    summary: "List orgs",
    query: Shape({ ...page, status: Maybe(OneOf(ORG_STATUSES)) }),
    responses: { 200: ListOf(Org) },
  },
  createOrg: {
    summary: "Create an org, pending until it is approved",
    body: Shape({ name: Name, email: Maybe(Email) }),
    responses: { 201: DataOf(Org) },
    errors: [409],
  },
  getAnyOrg: {
    summary: "Get an org",
    responses: { 200: DataOf(Org) },
    errors: [404],
  },
  approveOrg: {
    summary: "Approve an org; returns its bootstrap token once",
    body: Shape({}),
    secret_fields: ["token"],
    responses: { 200: DataOf(ApprovedOrg) },
    errors: [404, 409],
  },
  rejectOrg: {
    summary: "Reject and delete a pending org, which frees its name; returns the deleted org",
    body: Shape({}),
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  },
  suspendOrg: {
    summary: "Suspend an org: its tokens are refused, its robots disconnected and its deployments paused",
    body: Shape({}),
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  },
  resumeOrg: {
    summary: "Resume a suspended org",
    body: Shape({}),
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  },
  getStats: {
    summary: "Get statistics of the whole service",
    responses: { 200: DataOf(Stats) },
  },
});

export const orgRoutes = { ...ownOrgRoutes, ...adminRoutes };
