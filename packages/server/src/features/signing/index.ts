import { type BodyOf, routes, type Routes, type SigningKeys } from "@roamfleet/protocol/routes";
import {
  checkSignedRelease,
  keyIdOf,
  nextTrust,
  parseTrustStatement,
  type SignedRelease,
  type SignedText,
  type Trust,
} from "@roamfleet/protocol/signatures";
import type { Plane } from "../../context.ts";
import { mapUniqueViolation } from "../../engines/db/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, type Fault } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { findLatest, insertStatement, listStatements, type StatementRow } from "./store.ts";

/**
 * Maximum time by which the date of a signature may be in the future. A later date means that it was signed on a machine with a wrong
 * clock.
 */
const AHEAD_MAX_MS = 86_400_000;

export function signingRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getSigningKeys, async (_, { caller: { org_id }, db }) => ({
    data: toWire(org_id, await listStatements(db, org_id, 0)),
  }));

  serve(http, plane, routes.changeSigningKeys, async (_, { body, caller, db }) => ({ data: await changeKeys(plane, db, caller, body) }));

  serve(http, plane, routes.listAgentSigning, async (_, { query, caller: { org_id }, db }) => ({
    items: (await listStatements(db, org_id, query.after ?? 0)).map(({ statement }) => statement),
  }));
}

/**
 * Stores the next statement of an org's signing keys. One of the org's present keys must have signed it. Robots apply the same rule, so the
 * server sends them no statement that they would refuse. With `start_over`, one of the keys in the statement may have signed it instead.
 * Throws 400 if the statement is invalid. Throws 409 if its serial is not the next one, for example because another statement was stored
 * first.
 */
async function changeKeys(
  plane: Pick<Plane, "clock" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  { statement, start_over = false }: BodyOf<Routes["changeSigningKeys"]>,
): Promise<SigningKeys> {
  const now = plane.clock.now();
  const next = parseTrustStatement(statement.text);
  if (next === undefined) throw badRequest("field statement: its text is not a statement of signing keys");
  if (Date.parse(next.issued_at) > now.getTime() + AHEAD_MAX_MS)
    throw badRequest(`field statement: issued_at ${next.issued_at} is more than a day ahead of the server's clock`);
  if (next.require_signature && next.keys.length === 0)
    throw badRequest("field statement: it requires signatures but contains no key, so no release could be signed");
  const changed = db.transaction(async (tx) => {
    const latest = await findLatest(tx, org_id);
    const serial = latest?.serial ?? 0;
    if (next.serial !== serial + 1) throw serialConflict(next.serial, serial);
    const taken = nextTrust(start_over ? startedOver(serial, next) : latest && trustOf(latest), org_id, statement);
    if ("refusal" in taken) throw badRequest(`field statement: ${taken.refusal}`);
    announce(tx, plane, org_id, { kind: "signing_keys", id: org_id, change: "updated" });
    await insertStatement(tx, org_id, { serial: next.serial, statement, created_by: actor, created_at: now });
    return toWire(org_id, await listStatements(tx, org_id, 0));
  });
  return await mapUniqueViolation(changed, () => serialConflict(next.serial, next.serial));
}

/** Returns a state that already trusts the keys of the new statement, so that one of these keys may sign the statement. */
const startedOver = (serial: number, { keys }: Pick<Trust, "keys">): Trust => ({ serial, require_signature: false, keys });

const serialConflict = (sent: number, serial: number): Fault =>
  conflict(`the statement has serial ${sent}, but the org's keys are at ${serial}: get the keys again and sign the next serial`);

function trustOf({ statement }: Pick<StatementRow, "statement">): Trust {
  const trust = parseTrustStatement(statement.text);
  if (trust === undefined) throw new Error("a stored statement of signing keys cannot be read");
  return trust;
}

async function trustOfOrg(db: Db, org_id: string): Promise<Trust> {
  const latest = await findLatest(db, org_id);
  return latest === undefined ? { serial: 0, require_signature: false, keys: [] } : trustOf(latest);
}

/**
 * Returns the latest statement of the org's signing keys. A robot gets this statement when it enrolls, and trusts it. Null if the org has
 * none.
 */
export const latestStatement = async (db: Db, org_id: string): Promise<SignedText | null> =>
  (await findLatest(db, org_id))?.statement ?? null;

interface ReleaseToCheck extends SignedRelease {
  app: string;
  signature?: unknown;
}

/** Throws 400 unless a key of the org signed exactly this release. */
export async function requireSignatureOf(plane: Pick<Plane, "clock">, db: Db, org_id: string, release: ReleaseToCheck): Promise<void> {
  const { keys } = await trustOfOrg(db, org_id);
  const { app, signature } = release;
  const now_ms = plane.clock.now().getTime();
  const verdict = checkSignedRelease({ org_id, app, release, signature, keys, now_ms });
  if ("refusal" in verdict) throw badRequest(`field signature: ${verdict.refusal.message} (${verdict.refusal.check})`);
  const { issued_at } = verdict.statement;
  if (Date.parse(issued_at) > now_ms + AHEAD_MAX_MS)
    throw badRequest(`field signature: issued_at ${issued_at} is more than a day ahead of the server's clock`);
}

/** Throws 409 if the org's robots would refuse the release because its signature is missing or invalid. */
export async function requireDeployable(plane: Pick<Plane, "clock">, db: Db, org_id: string, release: ReleaseToCheck): Promise<void> {
  const { keys, require_signature } = await trustOfOrg(db, org_id);
  const { app, signature } = release;
  if (!require_signature && (signature === null || signature === undefined)) return;
  const verdict = checkSignedRelease({ org_id, app, release, signature, keys, now_ms: plane.clock.now().getTime() });
  if ("refusal" in verdict)
    throw conflict(
      `${verdict.refusal.message} (${verdict.refusal.check}); the org's robots would refuse it. Sign it: rf releases push … --sign <key file>`,
    );
}

/**
 * Combines an org's statements, which must be sorted from oldest to newest, into its keys. Each key has the time at which it was added and,
 * if it was revoked, the time of its revocation.
 */
function toWire(org_id: string, rows: readonly StatementRow[]): SigningKeys {
  const keys = new Map<string, SigningKeys["keys"][number]>();
  let wire = { org_id, serial: 0, require_signature: false };
  for (const { statement, created_at } of rows) {
    const trust = parseTrustStatement(statement.text);
    if (trust === undefined) continue;
    wire = { org_id, serial: trust.serial, require_signature: trust.require_signature };
    const present = new Set(trust.keys.map(({ public_key }) => keyIdOf(public_key)));
    for (const [id, key] of keys) if (!present.has(id)) keys.set(id, { ...key, revoked_at: key.revoked_at ?? wireTime(created_at) });
    for (const { name, public_key } of trust.keys) {
      const id = keyIdOf(public_key);
      const known = keys.get(id);
      const added_at = known === undefined || known.revoked_at !== null ? wireTime(created_at) : known.added_at;
      keys.set(id, { id, name, public_key, added_at, revoked_at: null });
    }
  }
  return { ...wire, keys: [...keys.values()], statements: rows.map(({ statement }) => statement) };
}
