import { checkSignedRelease, parseTrustStatement, type SignedRelease, type SignedText, type Trust } from "@roamfleet/protocol/signatures";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict } from "../../kernel/fault.ts";
import { AHEAD_MAX_MS } from "./limits.ts";
import { findLatest, type StatementRow } from "./store.ts";

export function trustOf({ statement }: Pick<StatementRow, "statement">): Trust {
  const trust = parseTrustStatement(statement.text);
  if (trust === undefined) throw new Error("a stored statement of signing keys cannot be read");
  return trust;
}

const NO_KEYS: Trust = { serial: 0, require_signature: false, keys: [] };

async function trustOfOrg(db: Db, org_id: string): Promise<Trust> {
  const latest = await findLatest(db, org_id);
  return latest === undefined ? NO_KEYS : trustOf(latest);
}

/** Returns the statement that a robot trusts from its enrollment on; null while the org has no keys. */
export const latestStatement = async (db: Db, org_id: string): Promise<SignedText | null> =>
  (await findLatest(db, org_id))?.statement ?? null;

export interface ReleaseToCheck extends SignedRelease {
  app: string;
  signature?: unknown;
}

/** Refuses (400) a signature that is not of this release by a key of the org. */
export async function requireSignatureOf(plane: Pick<Plane, "clock">, db: Db, org_id: string, release: ReleaseToCheck): Promise<void> {
  const { keys } = await trustOfOrg(db, org_id);
  const { app, signature } = release;
  const now_ms = plane.clock.now().getTime();
  const verdict = checkSignedRelease({ org_id, app, release, signature, keys, now_ms });
  if ("refusal" in verdict) throw badRequest(`field signature: ${verdict.refusal.message} (${verdict.refusal.check})`);
  const { issued_at } = verdict.statement;
  if (Date.parse(issued_at) > now_ms + AHEAD_MAX_MS)
    throw badRequest(`field signature: it was made at ${issued_at}, which is more than a day ahead`);
}

/** Refuses (409) to deploy a release that the org's robots would refuse because of its signature. */
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
