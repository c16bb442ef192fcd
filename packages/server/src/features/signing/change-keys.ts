import type { BodyOf, Routes, SigningKeys } from "@roamfleet/protocol/routes";
import { nextTrust, parseTrustStatement, type Trust } from "@roamfleet/protocol/signatures";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, type Fault } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { AHEAD_MAX_MS } from "./limits.ts";
import { findLatest, insertStatement, listStatements } from "./store.ts";
import { trustOf } from "./verify.ts";
import { toWire } from "./wire.ts";

/**
 * Stores the next statement of an org's signing keys if one of its present keys signed it. This is the rule that robots apply, so no robot
 * is sent a statement that it refuses. Throws 400 for an invalid statement, 409 if another one was stored first.
 */
export async function changeKeys(
  plane: Pick<Plane, "clock" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  { statement, start_over = false }: BodyOf<Routes["changeSigningKeys"]>,
): Promise<SigningKeys> {
  const now = plane.clock.now();
  const next = parseTrustStatement(statement.text);
  if (next === undefined) throw badRequest("field statement: its text is not a statement of signing keys");
  if (Date.parse(next.issued_at) > now.getTime() + AHEAD_MAX_MS)
    throw badRequest(`field statement: it was made at ${next.issued_at}, which is more than a day ahead`);
  if (next.require_signature && next.keys.length === 0)
    throw badRequest("field statement: it requires signatures but contains no key, so no release could be signed");
  try {
    return await db.transaction(async (tx) => {
      const latest = await findLatest(tx, org_id);
      const serial = latest?.serial ?? 0;
      if (next.serial !== serial + 1) throw serialConflict(next.serial, serial);
      const taken = nextTrust(start_over ? startedOver(serial, next) : latest && trustOf(latest), org_id, statement);
      if ("refusal" in taken) throw badRequest(`field statement: ${taken.refusal}`);
      announce(tx, plane, org_id, { kind: "signing_keys", id: org_id, change: "updated" });
      await insertStatement(tx, org_id, { serial: next.serial, statement, created_by: actor, created_at: now });
      return toWire(org_id, await listStatements(tx, org_id, 0));
    });
  } catch (error) {
    if (isUniqueViolation(error)) throw serialConflict(next.serial, next.serial);
    throw error;
  }
}

/** Returns a trust in which the keys of the statement itself are already trusted. */
const startedOver = (serial: number, { keys }: Pick<Trust, "keys">): Trust => ({ serial, require_signature: false, keys });

const serialConflict = (sent: number, serial: number): Fault =>
  conflict(`the statement has serial ${sent}, but the org's keys are at ${serial}: read them again and sign the next serial`);
