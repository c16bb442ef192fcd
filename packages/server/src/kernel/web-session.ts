import { createHmac, timingSafeEqual } from "node:crypto";
import { CSRF_HEADER, SECRET_PREFIXES, SESSION_COOKIES } from "@roamfleet/protocol";
import { forbidden, unauthorized } from "./fault.ts";
import type { Site } from "./networks.ts";

type Headers = Record<string, string | string[] | undefined>;

const SECRET = new RegExp(`^${SECRET_PREFIXES.session}[0-9a-f]{64}$`);
const CSRF_PURPOSE = "roamfleet csrf v1";

/** A session as requests by its cookie know it. The secret is in no field: nothing that prints a caller prints it. */
export class WebSession {
  readonly id: string;
  readonly expires_at: Date;
  /** Has it looked up anew by the next request, which may come at once. */
  readonly forget: () => void;
  readonly #secret: string | undefined;

  /** `secret`: undefined when nobody shows it at the moment. */
  constructor(secret: string | undefined, options: { id: string; expires_at: Date; forget: () => void }) {
    this.id = options.id;
    this.expires_at = options.expires_at;
    this.forget = options.forget;
    this.#secret = secret;
  }

  get csrf_token(): string {
    if (this.#secret === undefined) throw new Error("who does not show the session's secret sends no request by it");
    return csrfTokenOf(this.#secret);
  }
}

/** Follows from the secret, so that nothing is stored, and leads nowhere back to it. */
export const csrfTokenOf = (secret: string): string =>
  SECRET_PREFIXES.csrf + createHmac("sha256", secret).update(CSRF_PURPOSE).digest("hex");

const nameOf = ({ secure }: Site): string => (secure ? SESSION_COOKIES.secure : SESSION_COOKIES.plain);

/** What the request's cookie holds, whether or not it can be a secret; undefined when there is none. Throws 401 for two that differ. */
export function sessionCookie(headers: Headers, site: Site): string | undefined {
  const { cookie } = headers;
  if (typeof cookie !== "string") return undefined;
  const name = `${nameOf(site)}=`;
  const parts = cookie.split(";").map((part) => part.trim());
  const values = new Set(parts.filter((part) => part.startsWith(name)).map((part) => part.slice(name.length)));
  // Somebody else put one beside ours: which is whose cannot be told.
  if (values.size > 1) throw unauthorized("there are two cookies of a session");
  const [value] = values;
  return value === "" ? undefined : value;
}

export const isSessionSecret = (text: string): boolean => SECRET.test(text);

/** The header that gives a browser its session. No script can read it, and requests from other sites' pages go without it. */
export const setCookie = (secret: string, site: Site, max_age_seconds: number): string =>
  `${nameOf(site)}=${secret}; Path=/; Max-Age=${Math.max(0, Math.floor(max_age_seconds))}; HttpOnly; SameSite=Strict${site.secure ? "; Secure" : ""}`;

/** The header that takes it back. */
export const clearCookie = (site: Site): string => setCookie("", site, 0);

const one = (value: string | string[] | undefined): string | undefined => (typeof value === "string" ? value : undefined);

/** 403 unless the request was sent by a page of this server: browsers name the page's origin where it matters. */
export function requireOwnOrigin(headers: Headers, site: Site): void {
  const origin = one(headers.origin);
  if (origin === undefined) throw forbidden("a request by the cookie of a session needs the header Origin here");
  if (site.origin === undefined || origin !== site.origin) throw forbidden("Origin is another site");
}

/** 403 unless whoever sent the request could read what the server answered to this session. */
export function requireCsrfToken(headers: Headers, session: WebSession): void {
  const given = Buffer.from(one(headers[CSRF_HEADER.toLowerCase()]) ?? "");
  const expected = Buffer.from(session.csrf_token);
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    throw forbidden(`the header ${CSRF_HEADER} must be the csrf_token of the session: GET /api/auth/session answers it`);
}
