import { Type } from "typebox";
import { Platform } from "../link/messages.ts";
import { defineRoute } from "./route.ts";
import { Count, DataOf, Id, Labels, Maybe, Name, named, Nullable, type Of, Shape } from "./shapes.ts";
import { SignedText } from "./signing.ts";

const Document = Type.Record(Type.String(), Type.Unknown());

export const operationRoutes = {
  getOpenapi: defineRoute("getOpenapi", { summary: "This document", tag: "Reference", access: "public", responses: { 200: Document } }),
  getDocs: defineRoute("getDocs", {
    summary: "Interactive reference",
    tag: "Reference",
    access: "public",
    produces: "text/html",
    responses: { 200: null },
  }),
  getHealthz: defineRoute("getHealthz", {
    summary: "Check that the process runs",
    tag: "Operation",
    access: "public",
    responses: { 200: Shape({ status: Type.Literal("ok") }) },
  }),
  getReadyz: defineRoute("getReadyz", {
    summary: "Check that the database, the bus and the artifact store respond",
    tag: "Operation",
    access: "public",
    responses: {
      200: Shape({
        status: Type.Literal("ready"),
        node_id: Type.String({ description: "The server that responded, if several share one address" }),
        checks: Type.Record(Type.String(), Type.String()),
      }),
    },
    errors: [503],
  }),
  getCertificateAuthority: defineRoute("getCertificateAuthority", {
    summary: "Get the certificate of this server's own authority, in PEM format; verify its fingerprint before you trust it",
    tag: "Operation",
    access: "public",
    produces: "application/x-pem-file",
    responses: { 200: null },
    errors: [404],
  }),
  getMetrics: defineRoute("getMetrics", {
    summary: "Get metrics in the Prometheus text format",
    tag: "Operation",
    access: "service_admin",
    produces: "text/plain",
    responses: { 200: null },
  }),
};

export const Enrolled = named(
  "Enrolled",
  Shape({
    robot_id: Id,
    org_id: Id,
    name: Type.String(),
    trust: Maybe(Nullable(SignedText)),
  }),
);
export type Enrolled = Of<typeof Enrolled>;

export const agentRoutes = {
  getAgentOpenapi: defineRoute("getAgentOpenapi", {
    summary: "This document",
    tag: "Agent",
    access: "public",
    document: "agent",
    responses: { 200: Document },
  }),
  enrollRobot: defineRoute("enrollRobot", {
    summary: "Enroll a robot with an enrollment key and its public key; a repeated public key returns the same robot",
    tag: "Agent",
    access: "public",
    document: "agent",
    body: Shape({
      key: Type.String({ minLength: 1, maxLength: 200, description: "Enrollment key" }),
      public_key: Type.String({
        minLength: 44,
        maxLength: 44,
        pattern: "^[A-Za-z0-9+/]{43}=$",
        description: "base64 of the 32 raw Ed25519 bytes",
      }),
      name: Maybe(Name),
      labels: Maybe(Labels),
      platform: Maybe(Platform),
    }),
    responses: { 200: DataOf(Enrolled), 201: DataOf(Enrolled) },
    errors: [401, 403],
  }),
  listAgentSigning: defineRoute("listAgentSigning", {
    summary:
      "List the statements of the org's signing keys above a serial number, oldest first; each is signed by a key of the previous one",
    tag: "Agent",
    access: "robot",
    document: "agent",
    query: Shape({ after: Maybe(Count) }),
    responses: { 200: Shape({ items: Type.Array(SignedText) }) },
  }),
  getAgentArtifact: defineRoute("getAgentArtifact", {
    summary: "Download an artifact that is assigned to this robot",
    tag: "Agent",
    access: "robot",
    document: "agent",
    params: Shape({ sha256: Type.String({ maxLength: 200 }) }),
    produces: "application/octet-stream",
    responses: { 200: null, 206: null },
    errors: [416],
  }),
  getAgentConfig: defineRoute("getAgentConfig", {
    summary: "Get this robot's desired config file of a namespace",
    tag: "Agent",
    access: "robot",
    document: "agent",
    params: Shape({ namespace: Type.String({ maxLength: 800 }) }),
    responses: { 200: Document },
  }),
};
