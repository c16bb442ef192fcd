import { Type } from "typebox";
import { ROLES, TOKEN_STATUSES } from "../states.ts";
import { Actor, DataOf, defineRoutes, Email, Entity, Id, ListOf, Name, type Of, page, stamps, Time, withoutDefaults } from "./route.ts";
import { Maybe, Nullable, OneOf, Shape } from "../schema.ts";

const SCOPES_MAX = 100;
const EXPIRES_IN_HOURS_MAX = 87_600;
const OVERLAP_SECONDS_MAX = 86_400;

export const Scope = Entity("Scope", { site_id: Maybe(Id), fleet_id: Maybe(Id) });
const Scopes = Type.Array(Scope, {
  maxItems: SCOPES_MAX,
  description: "Sites and fleets that the role is limited to, one per scope; empty: the whole org",
});

export const Grant = Entity("Grant", { role: OneOf(ROLES), scopes: Scopes });
export type Grant = Of<typeof Grant>;

export const Me = Entity("Me", {
  actor: Shape({ type: OneOf(["user", "org_token"]), id: Type.String(), name: Nullable(Type.String()) }),
  token: Shape({ id: Id, label: Nullable(Type.String()), prefix: Type.String(), expires_at: Nullable(Type.String()) }),
  org: Shape({ id: Id, name: Type.String(), role: OneOf(ROLES) }),
  orgs: Type.Array(Shape({ id: Id, name: Type.String(), role: OneOf(ROLES), default: Type.Boolean() })),
  scopes: Type.Array(Scope),
});
export type Me = Of<typeof Me>;

/** An object that a user created or owns, and what happens to the object when the user is removed. */
export const UserHolding = Entity("UserHolding", {
  kind: OneOf(["deployment", "config_deployment", "enrollment_key", "token"]),
  id: Id,
  label: Nullable(Type.String()),
  status: Type.String(),
  outcome: OneOf(
    ["cancelled", "revoked", "kept"],
    "cancelled: robots that have begun to install complete it; kept: a token of the org that the user created, or one for every org of the user, which no longer works in this org",
  ),
});
export type UserHolding = Of<typeof UserHolding>;

export const Session = Entity("Session", {
  id: Id,
  org_id: Type.String({ description: "The org of the session" }),
  token_id: Type.String({ description: "The token that created the session; when the token ends, the session ends" }),
  csrf_token: Nullable(Type.String({ description: "Value of the `X-CSRF-Token` header that changing requests must send" })),
  idle_hours: Type.Number({ description: "Idle time after which the session ends" }),
  expires_at: Time,
  ...stamps,
});
export type Session = Of<typeof Session>;

export const User = Entity("User", {
  id: Id,
  email: Type.String(),
  name: Type.String(),
  role: OneOf(ROLES),
  grants: Type.Array(Grant),
  last_seen_at: Nullable(Time),
  ...stamps,
});
export type User = Of<typeof User>;

export const RemovedUser = Entity("RemovedUser", { ...User.properties, holdings: Type.Array(UserHolding) });
export type RemovedUser = Of<typeof RemovedUser>;

export const Token = Entity("Token", {
  id: Id,
  label: Nullable(Type.String()),
  role: OneOf(ROLES),
  scopes: Scopes,
  prefix: Type.String({ description: "The first 12 characters, to identify it" }),
  user_id: Nullable(Id),
  status: OneOf(TOKEN_STATUSES),
  expires_at: Nullable(Time),
  last_used_at: Nullable(Time),
  revoked_at: Nullable(Time),
  created_by: Nullable(Actor),
  ...stamps,
});
export type Token = Of<typeof Token>;

export const NewToken = Entity("NewToken", {
  ...Token.properties,
  token: Nullable(Type.String({ description: "The token's secret, shown only once" })),
});
export type NewToken = Of<typeof NewToken>;

const sessionRoutes = defineRoutes("People", {
  createSession: {
    summary: "Create a browser session from a token: its HttpOnly cookie replaces the token",
    by: "token",
    body: Shape({}),
    secret_fields: ["csrf_token"],
    responses: { 201: DataOf(Session) },
  },
  getSession: {
    summary: "Get the cookie's session and its CSRF token",
    by: "session",
    responses: { 200: DataOf(Session) },
  },
  updateSession: {
    summary: "Switch to another of the user's orgs; open streams of the previous one end",
    by: "session",
    body: Shape({ org_id: Id }),
    responses: { 200: DataOf(Session) },
    errors: [404],
  },
  endSession: {
    summary: "Sign out: the session ends and its cookie is deleted",
    by: "session",
    produces: "application/json",
    responses: { 204: null },
  },
});

const userRoutes = defineRoutes("People", {
  listUsers: {
    summary: "List the org's users",
    query: Shape({ ...page, q: Maybe(Type.String({ maxLength: 200 })), role: Maybe(OneOf(ROLES)) }),
    responses: { 200: ListOf(User) },
  },
  createUser: {
    summary: "Add a user to the org, or add a role to an existing user; repeating a role sets its scopes",
    body: Shape({ email: Email, name: Name, role: OneOf(ROLES), scopes: Maybe(Scopes) }),
    sameBody: withoutDefaults({ scopes: [] }),
    responses: { 201: DataOf(User), 200: DataOf(User) },
    errors: [409],
  },
  getUser: {
    summary: "Get a user of the org",
    responses: { 200: DataOf(User) },
  },
  updateUser: {
    summary: "Change a user's name or roles",
    body: Shape({
      name: Maybe(Name),
      role: Maybe(OneOf(ROLES)),
      scopes: Maybe(Scopes),
      grants: Maybe(
        Type.Array(Grant, { minItems: 1, maxItems: ROLES.length, description: "The complete list, instead of role and scopes" }),
      ),
    }),
    responses: { 200: DataOf(User) },
    errors: [409],
  },
  listUserHoldings: {
    summary: "List what is affected when a user is removed, with each outcome; the newest 100 of each kind",
    responses: { 200: ListOf(UserHolding) },
  },
  deleteUser: {
    summary:
      "Remove a user from the org: revokes roles, tokens and enrollment keys and cancels pending deployments; returns the affected objects",
    responses: { 200: DataOf(RemovedUser) },
    errors: [409],
  },
});

const tokenRoutes = defineRoutes("People", {
  listTokens: {
    summary: "List the org's tokens",
    query: Shape({ ...page, status: Maybe(OneOf(TOKEN_STATUSES)), user_id: Maybe(Id) }),
    responses: { 200: ListOf(Token) },
    errors: [404],
  },
  createToken: {
    summary: "Create a token of the org or of one of its users; returns the secret once",
    body: Shape({
      label: Name,
      role: OneOf(ROLES),
      scopes: Maybe(Scopes),
      expires_in_hours: Maybe(Type.Integer({ minimum: 0, maximum: EXPIRES_IN_HOURS_MAX, description: "0: never", default: 0 })),
      user_id: Maybe(Id),
    }),
    sameBody: withoutDefaults({ scopes: [] }),
    secret_fields: ["token"],
    responses: { 201: DataOf(NewToken) },
    errors: [404, 409],
  },
  getToken: {
    summary: "Get a token of the org",
    responses: { 200: DataOf(Token) },
  },
  revokeToken: {
    summary: "Revoke a token: its requests and open streams end within 2 s",
    body: Shape({}),
    responses: { 200: DataOf(Token) },
    errors: [409],
  },
  rotateToken: {
    summary: "Replace a token's secret; returns it once",
    body: Shape({
      overlap_seconds: Maybe(
        Type.Integer({ minimum: 0, maximum: OVERLAP_SECONDS_MAX, description: "How long the old secret stays valid", default: 0 }),
      ),
    }),
    secret_fields: ["token"],
    responses: { 200: DataOf(NewToken) },
    errors: [409],
  },
});

export const peopleRoutes = defineRoutes("People", {
  getMe: {
    summary: "Get the token's user and orgs",
    responses: { 200: DataOf(Me) },
  },
  ...sessionRoutes,
  ...userRoutes,
  ...tokenRoutes,
});
