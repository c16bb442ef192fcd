import { timingSafeEqual } from "node:crypto";
import { ROBOT_SIGNATURE_SCHEME, ROBOT_SIGNATURE_WINDOW_MS } from "@roamfleet/protocol/link";
import type { Caller, HashedProof, Proof, RobotCaller } from "./caller.ts";
import { type BoundChannel, channelRefusal, hostOf, type Site } from "./networks.ts";
import { Fault, forbidden, unauthorized } from "./fault.ts";
import type { AdminPolicy, KernelPlane } from "./kernel-plane.ts";
import { clearCookie, isSessionSecret, requireCsrfToken, requireOwnOrigin, sessionCookie } from "./web-session.ts";

/** Input of authentication, the same for HTTP requests and upgrades. */
export interface Credentials {
  headers: Record<string, string | string[] | undefined>;
  /** Address that the request came from, as reported by the trusted proxy if there is one. */
  ip: string;
  /** Address of the socket's peer. */
  peer: string | undefined;
  /** Returns scheme and origin of this server, as the browser that sent the request sees them. */
  site: () => Site;
}

const header = ({ headers }: Pick<Credentials, "headers">, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === "string" ? value : undefined;
};

/** Returns the bearer token of the Authorization header. `Bearer` is matched in any case. */
export function bearerOf(credentials: Pick<Credentials, "headers">): string | undefined {
  return /^bearer +(\S+) *$/i.exec(header(credentials, "authorization") ?? "")?.[1];
}

/**
 * Returns the proof of identity in a request: a token or, without an `Authorization` header, a session cookie. On WebSocket routes, `token`
 * comes from the query.
 */
export function proofOf(credentials: Pick<Credentials, "headers" | "site">, token = bearerOf(credentials)): Proof | undefined {
  if (token !== undefined) return { by: "token", secret: token };
  if (header(credentials, "authorization") !== undefined) return undefined;
  const secret = sessionCookie(credentials.headers, credentials.site());
  return secret === undefined ? undefined : { by: "session", secret };
}

/**
 * Resolves a portal token or a session cookie. On WebSocket routes, `proof` and `org_id` come from the query. A cookie does not prove that
 * the user intended the request: see `requireCsrfProof` for protection against CSRF.
 */
export async function authenticatePortal(
  plane: KernelPlane,
  credentials: Credentials,
  proof = proofOf(credentials),
  org_id = header(credentials, "x-service-org-id"),
): Promise<Caller> {
  if (proof === undefined) throw unauthorized("a token is needed: Authorization: Bearer <token>");
  const found = await countRequest(plane, credentials, proof.by, async () => ({ caller: await authenticateProof(plane, proof, org_id) }));
  return found.caller;
}

/**
 * Authenticates a request with `find` and counts it. A valid request counts against the rate limits of its token and its org. An invalid
 * request counts as a failed attempt of the client's address.
 */
export async function countRequest<T extends { caller: Caller }>(
  plane: KernelPlane,
  credentials: Credentials,
  by: Proof["by"] | "ticket",
  find: () => Promise<T>,
): Promise<T> {
  const found = await find().catch((error: unknown) => {
    throw refusalOf(plane, credentials, by, error);
  });
  plane.rate_limits.token.take(found.caller.token_id);
  plane.rate_limits.org.take(found.caller.org_id);
  return found;
}

/** Checks whether the proof of identity of a stream or transfer in progress is still valid, and returns its caller. */
export const authenticateAgain = ({ authenticators }: KernelPlane, proof: HashedProof, org_id: string): Promise<Caller> =>
  authenticators.recheck(proof, org_id);

async function authenticateProof({ authenticators }: KernelPlane, { by, secret }: Proof, org_id: string | undefined): Promise<Caller> {
  // A session secret is not accepted as a token, nor a token as a cookie: scripts can read tokens, and browsers attach cookies to all
  // requests.
  if ((by === "session") !== isSessionSecret(secret)) throw unauthorized(`the ${by} is not known`);
  return by === "session" ? authenticators.session(secret, org_id) : authenticators.portal(secret, org_id);
}

/**
 * Counts a failed attempt against the rate limit of the client's address, and returns the error to throw. An attempt with a token that was
 * valid once does not count. The limit does not affect requests with a valid token.
 */
function refusalOf(plane: KernelPlane, credentials: Credentials, by: Proof["by"] | "ticket", error: unknown): unknown {
  if (!(error instanceof Fault) || error.code !== "unauthorized") return error;
  let fault = error;
  try {
    if (error.detail.known !== true) plane.rate_limits.unknown.take(credentials.ip);
  } catch (limited) {
    if (!(limited instanceof Fault)) return limited;
    fault = limited;
  }
  // Deletes the cookie. Otherwise the browser would send the invalid cookie with every request.
  if (by === "session") fault.headers["set-cookie"] = clearCookie(credentials.site());
  return fault;
}

/**
 * Protects against CSRF: browsers attach the session cookie to requests of any page. Throws 403 unless a page of this server made the
 * request. A change must carry the session's CSRF token, which only such a page can read. A WebSocket upgrade from a browser cannot carry
 * that token in a header, so only its Origin is checked.
 */
export function requireCsrfProof(
  credentials: Credentials,
  { session }: Caller,
  what: "reads" | "changes" | "opens" | "opens_by_ticket",
): void {
  if (session === undefined || what === "reads") return;
  // Clients other than browsers send no Origin. A ticket is only given to pages of this server.
  if (what === "opens_by_ticket" && credentials.headers.origin === undefined) return;
  requireOwnOrigin(credentials.headers, credentials.site());
  if (what === "changes") requireCsrfToken(credentials.headers, session);
}

/**
 * Authenticates the service's administrator by the admin token or, if none is set, by a connection from this machine. Failed attempts are
 * limited per address. A valid token is not limited, because other clients may share the address.
 */
export function authenticateAdmin(
  { admin: policy, rate_limits }: Pick<KernelPlane, "admin" | "rate_limits">,
  credentials: Credentials,
): void {
  if (policy.token === undefined) return requireLoopback(policy, credentials);
  const bearer = bearerOf(credentials);
  const extra = header(credentials, "x-service-admin-token");
  const admits = (secret: string | undefined): boolean => secret !== undefined && equal(secret, policy.token as string);
  const is_portal_token = bearer !== undefined && bearer.startsWith("rf_");
  const is_guess = extra !== undefined || (bearer !== undefined && !is_portal_token);
  if (admits(extra) || admits(bearer)) return;
  if (is_guess) rate_limits.admin.take(credentials.ip);
  if (is_portal_token) throw forbidden("this needs the service's admin token, not a portal token");
  throw unauthorized("the service's admin token is needed");
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "::ffff:127.0.0.1"]);
const LOCAL_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Open mode: accepts only a direct request from this machine, not through a proxy and not from a page of another site. */
function requireLoopback(policy: AdminPolicy, credentials: Credentials): void {
  const refuse = (why: string): never => {
    throw forbidden(`while SERVICE_ADMIN_TOKEN is not set, admin routes accept requests from this machine only (${why})`);
  };
  if (policy.behind_proxy) refuse("the server runs behind a proxy");
  if (credentials.peer === undefined || !LOOPBACK.has(credentials.peer)) refuse("the request came from another machine");
  const host = header(credentials, "host") ?? "";
  if (!LOCAL_HOST.test(host)) refuse("the Host header is not localhost");
  const forwarded = Object.keys(credentials.headers).find((name) => name === "forwarded" || name.startsWith("x-forwarded-"));
  if (forwarded !== undefined) refuse("the request was forwarded");
  const origin = header(credentials, "origin");
  if (origin !== undefined && origin.replace(/^https?:\/\//, "") !== host) refuse("Origin is another site");
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

const NONCE = /^[\w-]{16,64}$/;

/** A signed request, and the connection that carried it. */
interface RobotRequest {
  method: string;
  path: string;
  bound: BoundChannel;
}

/**
 * Checks `Authorization: RobotSignature <robot_id>:<at>:<nonce>:<channel>:<signature>` over the host, TLS channel, method and path of this
 * request.
 */
export async function authenticateRobot(
  plane: KernelPlane,
  credentials: Credentials,
  { method, path, bound }: RobotRequest,
): Promise<RobotCaller> {
  const [scheme, value = ""] = (header(credentials, "authorization") ?? "").split(" ", 2);
  const [robot_id, at_text, nonce, channel, signature] = value.split(":");
  if (scheme !== ROBOT_SIGNATURE_SCHEME || robot_id === undefined || nonce === undefined || channel === undefined || !NONCE.test(nonce)) {
    throw unauthorized("a robot's signature is needed");
  }
  if (signature === undefined) throw unauthorized("the request is signed in the format of earlier agent versions: upgrade the agent");
  const at = Number(at_text);
  const skew = Math.abs(plane.clock.now().getTime() - at);
  if (!(skew <= ROBOT_SIGNATURE_WINDOW_MS)) throw unauthorized("the robot's signature is too old or too new");
  const refusal = channelRefusal(bound, channel);
  if (refusal !== undefined) throw unauthorized(refusal);
  const request = { host: hostOf(credentials.site()), channel, method, path, at, nonce };
  return plane.authenticators.robot(robot_id, request, signature).catch((error: unknown) => {
    if (error instanceof Fault && error.code === "unauthorized" && error.detail.known !== true)
      plane.rate_limits.unknown.take(credentials.ip);
    throw error;
  });
}
