import { type Clock, idSource } from "@roamfleet/clock";
import { connect, type DbAddress, migrate, MIGRATIONS_DIRECTORY } from "./engines/db/index.ts";
import type { EngineLog } from "./engines/log.ts";
import { revokeEveryKey } from "./features/enrollment/index.ts";
import { listActiveOrgs } from "./features/orgs/index.ts";
import { revokeEveryApproval } from "./features/robots/index.ts";
import { createCredential, revokeEveryToken } from "./features/tokens/index.ts";

export interface Revoked {
  tokens: number;
  keys: number;
  /** Robots that need an admin's approval again. */
  approvals: number;
  /** A new admin token of each active org, which replaces the revoked ones. Shown once. */
  admins: { org: string; token: string }[];
}

/**
 * Revokes what a backup may bring back. Tokens, enrollment keys and robots that were revoked after the backup cannot be distinguished from
 * others, so all are revoked. Robots only lose their approval: they connect, but get no secrets. Call it before a server uses the restored
 * database.
 */
export async function revokeRestored(
  connection: DbAddress,
  what: { tokens: boolean; keys: boolean; approvals: boolean },
  { clock, log }: { clock: Clock; log: EngineLog },
): Promise<Revoked> {
  await migrate(connection, { directory: MIGRATIONS_DIRECTORY, log });
  const db = await connect({ connection, pool_size: 4, clock, log });
  try {
    return await db.transaction(async (tx) => {
      const revoked: Revoked = { tokens: 0, keys: 0, approvals: 0, admins: [] };
      if (what.keys) revoked.keys = await revokeEveryKey(tx, clock.now());
      if (what.approvals) revoked.approvals = await revokeEveryApproval(tx, clock.now());
      if (!what.tokens) return revoked;
      revoked.tokens = await revokeEveryToken(tx, clock.now());
      const maker = { clock, id: idSource(clock) };
      for (const { id, name } of await listActiveOrgs(tx)) {
        const { secret } = await createCredential(tx, maker, { kind: "org", org_id: id, role: "admin", label: "after restore" });
        revoked.admins.push({ org: name, token: secret });
      }
      return revoked;
    });
  } finally {
    await db.close();
  }
}
