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
 * Takes the next statement of an org's keys when one of the present keys signed it: the same rule by which robots take it, so
 * that nobody is told of a change that robots refuse. 400 says what is wrong with it, 409 that somebody else was first.
 */
export async function changeKeys(
  plane: Pick<Plane, "clock" | "bus">,
  db: Db,
  { org_id, actor }: Caller,
  { statement, start_over = false }: BodyOf<Routes["changeSigningKeys"]>,
): Promise<SigningKeys> {
  const now = plane.clock.now();
  const said = parseTrustStatement(statement.text);
  if (said === undefined) throw badRequest("field statement: its text is no statement of signing keys");
  if (Date.parse(said.issued_at) > now.getTime() + AHEAD_MAX_MS)
    throw badRequest(`field statement: it was made at ${said.issued_at}, which is more than a day ahead`);
  if (said.require_signature && said.keys.length === 0)
    throw badRequest("field statement: without any key no release could be signed, so none can be required to be");
  try {
    return await db.transaction(async (tx) => {
      const latest = await findLatest(tx, org_id);
      const serial = latest?.serial ?? 0;
      if (said.serial !== serial + 1) throw outrun(said.serial, serial);
      const taken = nextTrust(start_over ? startedOver(serial, said) : latest && trustOf(latest), org_id, statement);
      if ("refusal" in taken) throw badRequest(`field statement: ${taken.refusal}`);
      announce(tx, plane, org_id, { kind: "signing_keys", id: org_id, change: "updated" });
      await insertStatement(tx, org_id, { serial: said.serial, statement, created_by: actor, created_at: now });
      return toWire(org_id, await listStatements(tx, org_id, 0));
    });
  } catch (error) {
    if (isUniqueViolation(error)) throw outrun(said.serial, said.serial);
    throw error;
  }
}

/** As if the keys of the statement itself had been trusted before. */
const startedOver = (serial: number, { keys }: Pick<Trust, "keys">): Trust => ({ serial, require_signature: false, keys });

const outrun = (said: number, serial: number): Fault =>
  conflict(`the statement has serial ${said}, but the org's keys are at ${serial}: look at them again and sign the next`);
