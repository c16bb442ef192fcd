import { Type } from "typebox";
import { ROLES } from "../states.ts";
import { defineRoute } from "./route.ts";
import { DataOf, Id, IdParams, ListOf, Maybe, Name, named, Nullable, OneOf, type Of, page, Shape, stamps } from "./shapes.ts";

export const Scope = named("Scope", Shape({ site_id: Maybe(Id), fleet_id: Maybe(Id) }));

export const Me = named(
  "Me",
  Shape({
    actor: Shape({ type: OneOf(["user", "org_token"]), id: Type.String(), name: Nullable(Type.String()) }),
    token: Shape({ id: Id, label: Nullable(Type.String()), prefix: Type.String(), expires_at: Nullable(Type.String()) }),
    org: Shape({ id: Id, name: Type.String(), role: OneOf(ROLES) }),
    orgs: Type.Array(Shape({ id: Id, name: Type.String(), role: OneOf(ROLES), default: Type.Boolean() })),
    scopes: Type.Array(Scope),
  }),
);
export type Me = Of<typeof Me>;

export const Org = named("Org", Shape({ id: Id, name: Type.String(), status: OneOf(["pending", "active", "suspended"]), ...stamps }));
export type Org = Of<typeof Org>;

export const ApprovedOrg = named(
  "ApprovedOrg",
  Shape({
    id: Id,
    name: Type.String(),
    status: OneOf(["active"]),
    ...stamps,
    token: Nullable(Type.String({ description: "The bootstrap token, shown this once" })),
  }),
);
export type ApprovedOrg = Of<typeof ApprovedOrg>;

export const peopleRoutes = {
  getMe: defineRoute("getMe", {
    summary: "Who the token is, and its orgs",
    tag: "People",
    access: "viewer",
    responses: { 200: DataOf(Me) },
  }),
  listOrgs: defineRoute("listOrgs", {
    summary: "List orgs",
    tag: "Admin",
    access: "service_admin",
    query: Shape({ ...page, status: Maybe(OneOf(["pending", "active", "suspended"])) }),
    responses: { 200: ListOf(Org) },
  }),
  createOrg: defineRoute("createOrg", {
    summary: "Create an org, pending until it is approved",
    tag: "Admin",
    access: "service_admin",
    body: Shape({ name: Name }),
    idempotency: "accepted",
    responses: { 201: DataOf(Org) },
    errors: [409],
  }),
  approveOrg: defineRoute("approveOrg", {
    summary: "Approve an org; answers its bootstrap token once",
    tag: "Admin",
    access: "service_admin",
    params: IdParams,
    body: Shape({}),
    idempotency: "accepted",
    secret_fields: ["token"],
    responses: { 200: DataOf(ApprovedOrg) },
    errors: [404, 409],
  }),
};
