import type { Db } from "../../kernel/db.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { beginFanOut } from "./fan-out.ts";
import { lockDeployments, takeDue } from "./store/deployments.ts";
import { type CreateContext, moveDeployment } from "./transition.ts";

const DUE_PER_TURN = 50;

/**
 * Background: takes deployments whose time has come off the shelf and resolves their robots. Taking the row, the change
 * of state and the first targets are one transaction, so each is dispatched once, whatever dies when.
 */
export async function releaseDue(db: Db, engine: CreateContext): Promise<boolean> {
  const taken = await db.transaction(async (tx) => {
    const due = await takeDue(tx, engine.clock.now(), DUE_PER_TURN);
    for (const { org_id, id } of due) {
      const [row] = await lockDeployments(tx, org_id, [id]);
      if (row === undefined || row.status !== "scheduled") continue;
      await beginFanOut(tx, engine, await moveDeployment(tx, engine, row, "queued", null, SYSTEM));
    }
    return due.length;
  });
  return taken === DUE_PER_TURN;
}
