import { timingSafeEqual } from "node:crypto";
import { httpRequestText, ROBOT_SIGNATURE_SCHEME, ROBOT_SIGNATURE_WINDOW_MS } from "@robofleet/protocol/link";
import type { Caller, RobotCaller } from "./caller.ts";
import { Fault, forbidden, unauthorized } from "./fault.ts";
import type { AdminPolicy, KernelPlane } from "./kernel-plane.ts";

/** What authentication looks at; the same for HTTP requests and upgrades. */
export interface Credentials {
  headers: Record<string, string | string[] | undefined>;
  /** Address that the request came from, the proxy's word counted where there is a trusted one. */
  ip: string;
  /** Address of the socket's other end. */
  peer: string | undefined;
}

const header = ({ headers }: Credentials, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === "string" ? value : undefined;
};

/** The secret after `Bearer`, whose case does not matter. */
export function bearerOf(credentials: Credentials): string | undefined {
  return /^bearer +(\S+) *$/i.exec(header(credentials, "authorization") ?? "")?.[1];
}

/** Resolves a portal token; `secret` and `org_id` come from the query on WebSocket routes. */
export async function authenticatePortal(
  plane: KernelPlane,
  credentials: Credentials,
  secret = bearerOf(credentials),
  org_id = header(credentials, "x-service-org-id"),
): Promise<Caller> {
  if (secret === undefined) throw unauthorized("a token is needed: Authorization: Bearer <token>");
  let caller: Caller;
  try {
    caller = await plane.authenticators.portal(secret, org_id);
  } catch (error) {
    // Guessing is slow; who knows a token is never held up by those who do not, and a known one that has ended is no guess.
    if (error instanceof Fault && error.code === "unauthorized" && error.detail.known !== true)
      plane.rate_limits.unknown.take(credentials.ip);
    throw error;
  }
  plane.rate_limits.token.take(caller.token_id);
  return caller;
}

/** Lets the holder of the service's admin token pass; without such a token, whoever sits at the machine itself. */
export function authenticateAdmin(policy: AdminPolicy, credentials: Credentials): void {
  if (policy.token === undefined) return requireLoopback(policy, credentials);
  const bearer = bearerOf(credentials);
  const extra = header(credentials, "x-service-admin-token");
  const admits = (secret: string | undefined): boolean => secret !== undefined && equal(secret, policy.token as string);
  if (admits(extra) || admits(bearer)) return;
  if (bearer !== undefined && bearer.startsWith("rf_")) throw forbidden("this needs the service's admin token, not a portal token");
  throw unauthorized("the service's admin token is needed");
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "::ffff:127.0.0.1"]);
const LOCAL_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Open mode: only a direct request from this machine, not through a proxy and not from a page of another site. */
function requireLoopback(policy: AdminPolicy, credentials: Credentials): void {
  const refuse = (why: string): never => {
    throw forbidden(`admin routes are open to this machine only while SERVICE_ADMIN_TOKEN is not set (${why})`);
  };
  if (policy.behind_proxy) refuse("the server runs behind a proxy");
  if (credentials.peer === undefined || !LOOPBACK.has(credentials.peer)) refuse("the request came from another machine");
  const host = header(credentials, "host") ?? "";
  if (!LOCAL_HOST.test(host)) refuse("Host is not localhost");
  const forwarded = Object.keys(credentials.headers).find((name) => name === "forwarded" || name.startsWith("x-forwarded-"));
  if (forwarded !== undefined) refuse("the request was forwarded");
  const origin = header(credentials, "origin");
  if (origin !== undefined && origin.replace(/^https?:\/\//, "") !== host) refuse("Origin is another site");
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Checks `Authorization: RobotSignature <robot_id>:<at>:<signature>` over the method and path of this request. */
export async function authenticateRobot(plane: KernelPlane, credentials: Credentials, method: string, path: string): Promise<RobotCaller> {
  const [scheme, value = ""] = (header(credentials, "authorization") ?? "").split(" ", 2);
  const [robot_id, at, signature] = value.split(":");
  if (scheme !== ROBOT_SIGNATURE_SCHEME || robot_id === undefined || at === undefined || signature === undefined) {
    throw unauthorized("a robot's signature is needed");
  }
  const skew = Math.abs(plane.clock.now().getTime() - Number(at));
  if (!(skew <= ROBOT_SIGNATURE_WINDOW_MS)) throw unauthorized("the robot's signature is too old or too new");
  return plane.authenticators.robot(robot_id, httpRequestText(robot_id, method, path, Number(at)), signature);
}
