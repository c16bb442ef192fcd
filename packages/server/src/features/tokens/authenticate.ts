import type { Clock } from "@roamfleet/clock";
import { ROLES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { LRUCache } from "lru-cache";
import type { Limits } from "../../config.ts";
import { isOutage } from "../../engines/db/index.ts";
import { type Caller, type Grant, type HashedProof, highestRole, lowerRole, secretHash } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { forbidden, printable, unauthorized, unauthorizedKnown } from "../../kernel/fault.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import { WebSession } from "../../kernel/web-session.ts";
import {
  findCredential,
  findSession,
  type FoundCredential,
  idleSince,
  listOrgOfToken,
  listOrgsOfUser,
  type MembershipRow,
  type SessionRow,
  updateLastUsed,
  updateSessionsUsed,
} from "./store.ts";

export interface PortalAuthenticator {
  /** Returns the caller for a token, in the org that the request names, or otherwise in the token's default org. Throws 401 or 403. */
  authenticate(secret: string, org_id: string | undefined): Promise<Caller>;
  /**
   * Returns the caller for the secret of a session, in the session's current org. Throws 401 or 403. A request that names another org gets
   * 403.
   */
  authenticateSession(secret: string, org_id: string | undefined): Promise<Caller>;
  /** Checks again whether a token or session is valid, by its hash. Throws 401 or 403. Does not count as use of a session. */
  recheck(held: HashedProof, org_id: string): Promise<Caller>;
  /**
   * Writes the time at which each token and session was last used. Call this function every few seconds, because a write for each request
   * would be too expensive.
   */
  flushUsed(): Promise<void>;
}

interface Token {
  credential: FoundCredential;
  orgs: MembershipRow[];
  /** Cached callers, by the org that the request names. */
  callers: Map<string | undefined, Caller>;
}

interface Session extends Token {
  session: SessionRow;
}

interface Options {
  db: Db;
  clock: Clock;
  limits: Pick<Limits, "session_idle_hours">;
}

/**
 * Creates the authenticator of API tokens and browser sessions. It finds tokens and sessions by the SHA-256 of their secret, and caches the
 * results for 1 s.
 */
export function createPortalAuthenticator({ db, clock, limits }: Options): PortalAuthenticator {
  const tokens = new LookupCache<Token>(clock, (hash) => lookUpToken(db, hash));
  const sessions = new LookupCache<Session>(clock, (hash) => lookUpSession(db, hash));
  const used = new Map<string, Date>();
  const used_sessions = new Map<string, Date>();

  function note(uses: Map<string, Date>, id: string): void {
    if (uses.size < CACHED_SECRETS_MAX || uses.has(id)) uses.set(id, clock.now());
  }

  function checkSession({ session, credential }: Session): void {
    const now = clock.now();
    checkToken(credential, now, "the session's token");
    if (session.expires_at <= now) throw unauthorizedKnown("the session has expired");
    const used_at = used_sessions.get(session.id) ?? session.used_at;
    if (used_at <= idleSince(now, limits)) throw unauthorizedKnown("the session expired because it was not used");
  }

  async function ofToken(hash: Buffer, org_id: string | undefined): Promise<Caller> {
    const token = await tokens.get(hash);
    const { credential } = token;
    checkToken(credential, clock.now(), "the token");
    const caller = callerOf(token, org_id);
    note(used, credential.id);
    return caller;
  }

  /**
   * Returns the caller of a session. Requests pass `secret`, which counts as use of the session. Checks of open streams pass no secret, and
   * do not count as use.
   */
  async function ofSession(hash: Buffer, org_id: string | undefined, secret?: string): Promise<Caller> {
    let found = await sessions.get(hash);
    // Look up the session again without the cache: it may just have switched to the named org on another node.
    if (org_id !== undefined && org_id !== found.session.current_org_id) {
      sessions.forget(hash);
      found = await sessions.get(hash);
    }
    checkSession(found);
    const { session, credential } = found;
    if (org_id !== undefined && org_id !== session.current_org_id)
      throw forbidden(`the session is for org ${session.current_org_id}; change it with PATCH /api/auth/session`);
    const caller = callerOf(found, session.current_org_id);
    if (secret !== undefined) {
      note(used, credential.id);
      note(used_sessions, session.id);
    }
    const forget = (): void => sessions.forget(hash);
    return { ...caller, session: new WebSession(secret, { id: session.id, expires_at: session.expires_at, forget }) };
  }

  return {
    authenticate: (secret, org_id) => ofToken(secretHash(secret), org_id),
    authenticateSession: (secret, org_id) => ofSession(secretHash(secret), org_id, secret),
    recheck: ({ by, hash }, org_id) => (by === "session" ? ofSession(hash, org_id) : ofToken(hash, org_id)),
    async flushUsed() {
      const written = await Promise.allSettled([
        flush(used, (uses) => updateLastUsed(db, uses)),
        flush(used_sessions, (uses) => updateSessionsUsed(db, uses)),
      ]);
      const failed = written.find((one) => one.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    },
  };
}

/**
 * Writes the times at which tokens or sessions were last used, and removes the written entries from the map. If a write fails, keeps its
 * entries for the next flush.
 */
async function flush(uses: Map<string, Date>, write: (uses: ReadonlyMap<string, Date>) => Promise<unknown>): Promise<void> {
  const failures = await isolateFailures([...uses], isOutage, async (some) => {
    await write(new Map(some));
    for (const [id, at] of some) if (uses.get(id) === at) uses.delete(id);
  });
  if (failures !== undefined) throw failures.error;
}

function checkToken({ revoked_at, expires_at }: FoundCredential, now: Date, what: string): void {
  if (revoked_at !== null) throw unauthorizedKnown(`${what} was revoked`);
  if (expires_at !== null && expires_at <= now) throw unauthorizedKnown(`${what} has expired`);
}

async function lookUpToken(db: Db, hash: Buffer): Promise<Token> {
  const credential = await findCredential(db, hash);
  if (credential === undefined) throw unauthorized("the token is not known");
  return { credential, orgs: await listOrgs(db, credential), callers: new Map() };
}

async function lookUpSession(db: Db, hash: Buffer): Promise<Session> {
  const session = await findSession(db, hash);
  if (session === undefined) throw unauthorized("the session is not known");
  // Find the token by the hash of the secret that created the session. So the session ends when a rotation of the token makes this secret
  // invalid.
  const credential = await findCredential(db, session.token_hash);
  if (credential?.id !== session.token_id) throw unauthorizedKnown("the session's token was rotated");
  return { session, credential, orgs: await listOrgs(db, credential), callers: new Map() };
}

const listOrgs = (db: Db, { user_id, org_id, every_org }: FoundCredential): Promise<MembershipRow[]> =>
  user_id === null ? listOrgOfToken(db, org_id) : listOrgsOfUser(db, user_id, every_org ? null : org_id);

/** Returns the caller of a token in the named org. Caches the caller with the lookup of the token. */
function callerOf({ credential, orgs, callers }: Token, named: string | undefined): Caller {
  const caller = callers.get(named) ?? makeCaller(credential, orgs, named);
  callers.set(named, caller);
  return caller;
}

function makeCaller(credential: FoundCredential, memberships: readonly MembershipRow[], named: string | undefined): Caller {
  const org_id = named ?? credential.org_id;
  const own = memberships.filter((one) => one.org_id === org_id);
  const [org] = own;
  if (org === undefined) {
    throw forbidden(
      named === undefined
        ? "the token's default org no longer exists; name another org in X-Service-Org-Id"
        : `the token is not a member of org ${printable(named)}`,
    );
  }
  if (!org.active) throw forbidden(`org ${org_id} is not active`);
  const grants = grantsIn(credential, own);
  return {
    org_id,
    role: highestOf(grants),
    grants,
    limit: credential.user_id === null ? [] : credential.scopes,
    actor: actorOf(credential, org),
    token_id: credential.id,
    orgs: Array.from(
      Map.groupBy(
        memberships.filter(({ active }) => active),
        (one) => one.org_id,
      ),
      ([id, in_org]) => ({ org_id: id, role: highestOf(grantsIn(credential, in_org)), is_default: id === credential.org_id }),
    ),
  };
}

/**
 * Returns the grants of a token. A user's token has the grants of the user, with at most the token's role. A token of an org has one grant.
 */
const grantsIn = (credential: FoundCredential, memberships: readonly MembershipRow[]): Grant[] =>
  memberships.map(({ role, scopes }) =>
    role === null ? { role: credential.role, scopes: credential.scopes } : { role: lowerRole(role, credential.role), scopes: scopes ?? [] },
  );

const highestOf = (grants: readonly Grant[]): Grant["role"] => highestRole(grants.map(({ role }) => role)) ?? ROLES[0];

const actorOf = (credential: FoundCredential, { user_name }: MembershipRow): Actor =>
  credential.user_id === null
    ? { type: "org_token", id: credential.id, name: credential.label }
    : { type: "user", id: credential.user_id, name: user_name };

/** How long the result of a lookup is cached. So every node refuses a revoked token within 2 s. */
const CACHED_MS = 1_000;
const CACHED_SECRETS_MAX = 20_000;

/** Caches the results of looking up secrets by their SHA-256, for 1 s. */
class LookupCache<T extends object> {
  readonly #clock: Clock;
  readonly #lookUp: (hash: Buffer) => Promise<T>;
  readonly #known = new LRUCache<string, Promise<T>>({ max: CACHED_SECRETS_MAX });
  readonly #looked_up_at = new WeakMap<Promise<T>, number>();

  constructor(clock: Clock, lookUp: (hash: Buffer) => Promise<T>) {
    this.#clock = clock;
    this.#lookUp = lookUp;
  }

  get(hash: Buffer): Promise<T> {
    const key = hash.toString("latin1");
    const known = this.#known.get(key);
    // Share a running lookup, so that a thousand concurrent requests cause one query.
    const at = known === undefined ? undefined : this.#looked_up_at.get(known);
    if (known !== undefined && (at === undefined || this.#clock.monotonic() - at < CACHED_MS)) return known;
    const began_at = this.#clock.monotonic();
    const looking = this.#lookUp(hash);
    this.#known.set(key, looking);
    looking.then(
      () => this.#looked_up_at.set(looking, began_at),
      () => {
        if (this.#known.peek(key) === looking) this.#known.delete(key);
      },
    );
    return looking;
  }

  /** Makes the next `get` start a new lookup, even if one is running. */
  forget(hash: Buffer): void {
    this.#known.delete(hash.toString("latin1"));
  }
}
