import type { SigningKeys } from "@roamfleet/protocol/routes";
import { keyIdOf, parseTrustStatement } from "@roamfleet/protocol/signatures";
import { wireTime } from "../../kernel/time.ts";
import type { StatementRow } from "./store.ts";

/** Combines an org's statements, oldest first: each key with when it was added and revoked. */
export function toWire(org_id: string, rows: readonly StatementRow[]): SigningKeys {
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
