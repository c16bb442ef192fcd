import { Type } from "typebox";
import { Platform } from "../link/messages.ts";
import { Count, DataOf, defineRoutes, Entity, Id, Labels, Name, type Of, Time } from "./route.ts";
import { Maybe, Nullable, Shape } from "../schema.ts";
import { SignedText } from "./releases.ts";

/** Matches base64 of 32 bytes (Ed25519), or of 65 bytes that start with 4, the prefix of an uncompressed point (ECDSA). */
const ROBOT_PUBLIC_KEY_PATTERN = "^(?:[A-Za-z0-9+/]{43}=|B[A-P][A-Za-z0-9+/]{85}=)$";

const Document = Type.Record(Type.String(), Type.Unknown());

/** What a client needs to print the command that installs the agent on a robot. `installCommand` builds the command. */
export const InstallParts = Entity("InstallParts", {
  server: Nullable(
    Type.String({ description: "The server's address in the script, where robots connect; null: the command must contain it" }),
  ),
  script_sha256: Type.String({ pattern: "^[0-9a-f]{64}$", description: "SHA-256 of /install.sh, requested by the same host name" }),
  ca_fingerprint: Nullable(Type.String({ description: "Fingerprint of the server's own certificate authority; null if it has none" })),
});
export type InstallParts = Of<typeof InstallParts>;

export const HostedPackages = Entity("HostedPackages", {
  version: Nullable(Type.String({ description: "Version of the agent that the server hosts; null if it hosts no packages" })),
  commit: Nullable(Type.String()),
  built_at: Nullable(Time),
  architectures: Type.Array(Type.String(), { description: "Architectures of the agent's packages, as Debian names them" }),
  install: Nullable(InstallParts),
});
export type HostedPackages = Of<typeof HostedPackages>;

export const operationRoutes = defineRoutes("Operation", {
  getOpenapi: { summary: "Get this document", tag: "Reference", responses: { 200: Document } },
  getDocs: {
    summary: "Get the interactive API reference",
    tag: "Reference",
    produces: "text/html",
    responses: { 200: null },
  },
  getHealthz: {
    summary: "Check that the process runs",
    responses: { 200: Shape({ status: Type.Literal("ok") }) },
  },
  getReadyz: {
    summary: "Check that the database, the bus and the artifact store respond",
    responses: {
      200: Shape({
        status: Type.Literal("ready"),
        node_id: Type.String({ description: "The server that responded, if several share one address" }),
        checks: Type.Record(Type.String(), Type.String()),
      }),
    },
    errors: [503],
  },
  getCertificateAuthority: {
    summary: "Get the certificate of this server's own authority, in PEM format; verify its fingerprint before you trust it",
    produces: "application/x-pem-file",
    responses: { 200: null },
    errors: [404],
  },
  getInstallScript: {
    summary: "Get the script that installs the agent on a robot from this server",
    produces: "text/x-shellscript",
    responses: { 200: null },
    errors: [404],
  },
  getHostedPackages: {
    summary: "Get the version of the agent that this server hosts, and the parts of the command that installs it",
    responses: { 200: DataOf(HostedPackages) },
  },
  getMetrics: {
    summary: "Get metrics in the Prometheus text format",
    produces: "text/plain",
    responses: { 200: null },
  },
});

export const Enrolled = Entity("Enrolled", {
  robot_id: Id,
  org_id: Id,
  name: Type.String(),
  trust: Maybe(Nullable(SignedText)),
});
export type Enrolled = Of<typeof Enrolled>;

export const agentRoutes = defineRoutes("Agent", {
  getAgentOpenapi: {
    summary: "Get this document",
    document: "agent",
    responses: { 200: Document },
  },
  enrollRobot: {
    summary: "Enroll a robot with an enrollment key and its public key; a repeated public key returns the same robot",
    document: "agent",
    body: Shape({
      key: Type.String({ minLength: 1, maxLength: 200, description: "Enrollment key" }),
      public_key: Type.String({
        minLength: 44,
        maxLength: 88,
        pattern: ROBOT_PUBLIC_KEY_PATTERN,
        description: "base64 of the 32 raw Ed25519 bytes, or of a P-256 key as an uncompressed point (65 bytes)",
      }),
      name: Maybe(Name),
      labels: Maybe(Labels),
      platform: Maybe(Platform),
    }),
    responses: { 200: DataOf(Enrolled), 201: DataOf(Enrolled) },
    errors: [401, 403],
  },
  listAgentSigning: {
    summary:
      "List the statements of the org's signing keys above a serial number, oldest first; each is signed by a key of the previous one",
    document: "agent",
    query: Shape({ after: Maybe(Count) }),
    responses: { 200: Shape({ items: Type.Array(SignedText) }) },
  },
  getAgentArtifact: {
    summary: "Download an artifact that is assigned to this robot",
    document: "agent",
    params: Shape({ sha256: Type.String({ maxLength: 200 }) }),
    produces: "application/octet-stream",
    responses: { 200: null, 206: null },
    errors: [416],
  },
  getAgentConfig: {
    summary: "Get this robot's desired config file of a namespace",
    document: "agent",
    params: Shape({ namespace: Type.String({ maxLength: 800 }) }),
    responses: { 200: Document },
  },
});
