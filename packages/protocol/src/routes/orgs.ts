import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { Count, DataOf, Email, Id, IdParams, ListOf, Maybe, Name, named, Nullable, OneOf, type Of, page, Shape, stamps } from "./shapes.ts";

const ORG_STATUSES = ["pending", "active", "suspended"] as const;
const email = Nullable(Type.String({ description: "Address of the person who requested the org" }));

export const Org = named("Org", Shape({ id: Id, name: Type.String(), email, status: OneOf(ORG_STATUSES), ...stamps }));
export type Org = Of<typeof Org>;

export const ApprovedOrg = named(
  "ApprovedOrg",
  Shape({
    id: Id,
    name: Type.String(),
    email,
    status: OneOf(["active"]),
    ...stamps,
    token: Nullable(Type.String({ description: "The bootstrap token, shown only once" })),
  }),
);
export type ApprovedOrg = Of<typeof ApprovedOrg>;

const DEPLOYMENT_EXPIRES_DAYS_MAX = 365;

/** An org as visible to its members. */
export const OwnOrg = named(
  "OwnOrg",
  Shape({
    id: Id,
    name: Type.String(),
    status: OneOf(ORG_STATUSES),
    settings: Shape({
      deployment_expires_days: Nullable(
        Type.Integer({
          description: "Days after its start when a deployment cancels robots that have not started; null: the server's default",
        }),
      ),
    }),
    ...stamps,
  }),
);
export type OwnOrg = Of<typeof OwnOrg>;

export const Stats = named(
  "Stats",
  Shape({
    orgs: Shape({ total: Count, pending: Count, active: Count, suspended: Count }),
    robots: Shape({ total: Count, online: Count }),
    deployments: Shape({ scheduled: Count, running: Count }),
    database: Shape({ size_bytes: Count }),
  }),
);
export type Stats = Of<typeof Stats>;

const ownOrgRoutes = {
  getOrg: defineRoute("getOrg", {
    summary: "Get the token's org and its settings",
    tag: "People",
    access: "viewer",
    responses: { 200: DataOf(OwnOrg) },
  }),
  updateOrg: defineRoute("updateOrg", {
    summary: "Rename the org or change its settings",
    tag: "People",
    access: "admin",
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
  }),
  requestOrg: defineRoute("requestOrg", {
    summary: "Request an org; it is pending until the service's admin approves it",
    tag: "People",
    access: "public",
    body: Shape({ name: Name, email: Email }),
    idempotency: "accepted",
    responses: { 202: DataOf(Org) },
    errors: [403, 409],
  }),
};

const adminRoutes = {
  listOrgs: defineRoute("listOrgs", {
    summary: "List orgs",
    tag: "Admin",
    access: "service_admin",
    query: Shape({ ...page, status: Maybe(OneOf(ORG_STATUSES)) }),
    responses: { 200: ListOf(Org) },
  }),
  createOrg: defineRoute("createOrg", {
    summary: "Create an org, pending until it is approved",
    tag: "Admin",
    access: "service_admin",
    body: Shape({ name: Name, email: Maybe(Email) }),
    idempotency: "accepted",
    responses: { 201: DataOf(Org) },
    errors: [409],
  }),
  getAnyOrg: defineRoute("getAnyOrg", {
    summary: "Get an org",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    responses: { 200: DataOf(Org) },
    errors: [404],
  }),
  approveOrg: defineRoute("approveOrg", {
    summary: "Approve an org; returns its bootstrap token once",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    secret_fields: ["token"],
    responses: { 200: DataOf(ApprovedOrg) },
    errors: [404, 409],
  }),
  rejectOrg: defineRoute("rejectOrg", {
    summary: "Reject and delete a pending org, which frees its name; returns the deleted org",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  }),
  suspendOrg: defineRoute("suspendOrg", {
    summary: "Suspend an org: its tokens are refused, its robots disconnected and its deployments paused",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  }),
  resumeOrg: defineRoute("resumeOrg", {
    summary: "Resume a suspended org",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    responses: { 200: DataOf(Org) },
    errors: [404, 409],
  }),
  getStats: defineRoute("getStats", {
    summary: "Get statistics of the whole service",
    tag: "Admin",
    access: "service_admin",
    responses: { 200: DataOf(Stats) },
  }),
};

export const orgRoutes = { ...ownOrgRoutes, ...adminRoutes };
