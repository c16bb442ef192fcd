import type { Clock } from "@robofleet/clock";
import { ROLES } from "@robofleet/protocol";
import type { Actor } from "@robofleet/protocol/routes";
import { LRUCache } from "lru-cache";
import { type Caller, type Grant, highestRole, lowerRole } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { Fault, forbidden, printable, unauthorized } from "../../kernel/fault.ts";
import { secretHash } from "./create.ts";
import { type CredentialRow, findCredential, listOrgOfToken, listOrgsOfUser, type MembershipRow, updateLastUsed } from "./store.ts";

/** A token is looked up again after this long: what is revoked is refused within 2 s, on every node. */
const REMEMBERED_MS = 1_000;
const REMEMBERED_TOKENS_MAX = 20_000;

export interface PortalAuthenticator {
  /** Resolves a token and the org that the request names (else the token's default org). Throws 401 or 403. */
  authenticate(secret: string, org_id: string | undefined): Promise<Caller>;
  /** Writes when each token was used last. Call it every few seconds: a row a request would cost more than the request. */
  flushUsed(): Promise<void>;
}

interface Token {
  credential: CredentialRow;
  orgs: MembershipRow[];
  looked_up_at: number;
}

/** Portal tokens by the SHA-256 of their secret, remembered for a second. */
export function createPortalAuthenticator({ db, clock }: { db: Db; clock: Clock }): PortalAuthenticator {
  const tokens = new LRUCache<string, Promise<Token>>({ max: REMEMBERED_TOKENS_MAX });
  const resolved = new WeakMap<Promise<Token>, Token>();
  let used = new Map<string, Date>();

  function remembered(secret: string): Promise<Token> {
    const hash = secretHash(secret);
    const key = hash.toString("latin1");
    const known = tokens.get(key);
    // A look-up under way is shared: a thousand requests at once ask the database once.
    const token = known === undefined ? undefined : resolved.get(known);
    if (known !== undefined && (token === undefined || clock.monotonic() - token.looked_up_at < REMEMBERED_MS)) return known;
    const looking = lookUp(db, clock, hash);
    tokens.set(key, looking);
    looking.then(
      (found) => resolved.set(looking, found),
      () => tokens.delete(key),
    );
    return looking;
  }

  return {
    async authenticate(secret, org_id) {
      const { credential, orgs } = await remembered(secret);
      const now = clock.now();
      if (credential.revoked_at !== null) throw refuseKnown("the token was revoked");
      if (credential.expires_at !== null && credential.expires_at <= now) throw refuseKnown("the token has expired");
      const caller = callerOf(credential, orgs, org_id);
      if (used.size < REMEMBERED_TOKENS_MAX || used.has(credential.id)) used.set(credential.id, now);
      return caller;
    },
    async flushUsed() {
      if (used.size === 0) return;
      const taken = used;
      used = new Map();
      await updateLastUsed(db, taken);
    },
  };
}

async function lookUp(db: Db, clock: Clock, hash: Buffer): Promise<Token> {
  const looked_up_at = clock.monotonic();
  const credential = await findCredential(db, hash);
  if (credential === undefined) throw unauthorized("the token is not known");
  const orgs =
    credential.user_id === null
      ? await listOrgOfToken(db, credential.org_id)
      : await listOrgsOfUser(db, credential.user_id, credential.every_org ? null : credential.org_id);
  return { credential, orgs, looked_up_at };
}

/** 401 for a token that exists: not a guess, so it is not counted as one. */
function refuseKnown(message: string): Fault {
  const { headers } = unauthorized(message);
  return new Fault("unauthorized", message, { headers, detail: { known: true } });
}

function callerOf(credential: CredentialRow, memberships: readonly MembershipRow[], named: string | undefined): Caller {
  const org_id = named ?? credential.org_id;
  const own = memberships.filter((one) => one.org_id === org_id);
  const [org] = own;
  if (org === undefined) {
    throw forbidden(
      named === undefined
        ? "the token's default org is gone; name another in X-Service-Org-Id"
        : `the token is no member of org ${printable(named)}`,
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

/** A token never can do more than its user, nor more than it was made for. An org's token holds its one grant itself. */
const grantsIn = (credential: CredentialRow, memberships: readonly MembershipRow[]): Grant[] =>
  memberships.map(({ role, scopes }) =>
    role === null ? { role: credential.role, scopes: credential.scopes } : { role: lowerRole(role, credential.role), scopes: scopes ?? [] },
  );

const highestOf = (grants: readonly Grant[]): Grant["role"] => highestRole(grants.map(({ role }) => role)) ?? ROLES[0];

const actorOf = (credential: CredentialRow, { user_name }: MembershipRow): Actor =>
  credential.user_id === null
    ? { type: "org_token", id: credential.id, name: credential.label }
    : { type: "user", id: credential.user_id, name: user_name };
