import type { SystemDb } from "../../kernel/db.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { eachApart } from "./each-apart.ts";
import { beginFanOut } from "./fan-out.ts";
import { listDue, lockDeployments, takeDue } from "./store/deployments.ts";
import { type CreateContext, moveDeployment } from "./transition.ts";

const DUE_PER_TURN = 50;

/**
 * Background: takes deployments whose time has come off the shelf and resolves their robots. Taking the row, the change
 * of state and the first targets are one transaction, so each is dispatched once, whatever dies when.
 */
export async function releaseDue(db: SystemDb, engine: CreateContext): Promise<boolean> {
  const due = await listDue(db, engine.clock.now(), DUE_PER_TURN);
  await eachApart(due, ({ org_id, id }) =>
    db.forOrg(org_id).transaction(async (tx) => {
      if ((await takeDue(tx, org_id, id, engine.clock.now())) === 0) return;
      const [row] = await lockDeployments(tx, org_id, [id]);
      if (row === undefined || row.status !== "scheduled") return;
      await beginFanOut(tx, engine, await moveDeployment(tx, engine, row, "queued", null, SYSTEM));
    }),
  );
  return due.length === DUE_PER_TURN;
}
