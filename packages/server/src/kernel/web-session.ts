import { createHmac, timingSafeEqual } from "node:crypto";
import { CSRF_HEADER, SECRET_PREFIXES, SESSION_COOKIES } from "@roamfleet/protocol";
import { forbidden, unauthorized } from "./fault.ts";
import type { Site } from "./networks.ts";

type Headers = Record<string, string | string[] | undefined>;

const SECRET = new RegExp(`^${SECRET_PREFIXES.session}[0-9a-f]{64}$`);
const CSRF_PURPOSE = "roamfleet csrf v1";

/** The session of a request with a cookie. The secret is in a private field, so that printing a caller does not print it. */
export class WebSession {
  readonly id: string;
  readonly expires_at: Date;
  /** Evicts the session from the cache, so that even a request that follows immediately reads it from the database. */
  readonly forget: () => void;
  readonly #secret: string | undefined;

  /** `secret` is undefined if only its hash is available, as in a recheck. */
  constructor(secret: string | undefined, options: { id: string; expires_at: Date; forget: () => void }) {
    this.id = options.id;
    this.expires_at = options.expires_at;
    this.forget = options.forget;
    this.#secret = secret;
  }

  get csrf_token(): string {
    if (this.#secret === undefined) throw new Error("the session's secret is required for a CSRF check");
    return csrfTokenOf(this.#secret);
  }
}

/** Returns the session's CSRF token. It is derived from the secret, so it need not be stored. It does not reveal the secret. */
export const csrfTokenOf = (secret: string): string =>
  SECRET_PREFIXES.csrf + createHmac("sha256", secret).update(CSRF_PURPOSE).digest("hex");

const nameOf = ({ secure }: Site): string => (secure ? SESSION_COOKIES.secure : SESSION_COOKIES.plain);

/** Returns the session cookie's value, even if malformed; undefined if there is none. Throws 401 if there are two different values. */
export function sessionCookie(headers: Headers, site: Site): string | undefined {
  const { cookie } = headers;
  if (typeof cookie !== "string") return undefined;
  const name = `${nameOf(site)}=`;
  const parts = cookie.split(";").map((part) => part.trim());
  const values = new Set(parts.filter((part) => part.startsWith(name)).map((part) => part.slice(name.length)));
  // Another site set one of the cookies, and the server cannot determine which one is genuine.
  if (values.size > 1) throw unauthorized("the request has two different session cookies");
  const [value] = values;
  return value === "" ? undefined : value;
}

export const isSessionSecret = (text: string): boolean => SECRET.test(text);

/** Returns the header that sets the session cookie. Scripts cannot read it, and requests from pages of other sites do not send it. */
export const setCookie = (secret: string, site: Site, max_age_seconds: number): string =>
  `${nameOf(site)}=${secret}; Path=/; Max-Age=${Math.max(0, Math.floor(max_age_seconds))}; HttpOnly; SameSite=Strict${site.secure ? "; Secure" : ""}`;

/** Returns the header that removes the cookie. */
export const clearCookie = (site: Site): string => setCookie("", site, 0);

const one = (value: string | string[] | undefined): string | undefined => (typeof value === "string" ? value : undefined);

/** Throws 403 unless a page of this server sent the request, according to the browser's Origin header. */
export function requireOwnOrigin(headers: Headers, site: Site): void {
  const origin = one(headers.origin);
  if (origin === undefined) throw forbidden("a request with a session cookie needs the header Origin here");
  if (site.origin === undefined || origin !== site.origin) throw forbidden("Origin is another site");
}

/** Throws 403 unless the request has the session's CSRF token, which only pages of this server can read. */
export function requireCsrfToken(headers: Headers, session: WebSession): void {
  const given = Buffer.from(one(headers[CSRF_HEADER.toLowerCase()]) ?? "");
  const expected = Buffer.from(session.csrf_token);
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    throw forbidden(`the header ${CSRF_HEADER} must be the csrf_token of the session: GET /api/auth/session returns it`);
}
