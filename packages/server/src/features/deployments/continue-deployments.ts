import { isTerminal } from "@roamfleet/protocol";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { eachApart, type Postponed } from "./each-apart.ts";
import { lockDeployments } from "./store/deployments.ts";
import type { DeploymentRow } from "./store/rows.ts";
import type { Engine } from "./transition.ts";

/**
 * Does the next piece of work for each open deployment that `list` returns, in a transaction that locks its row. A failing deployment is
 * postponed and does not affect the others; `list` gets the postponed ids, to leave them out. Returns the number of deployments found.
 */
export async function continueDeployments(
  db: SystemDb,
  engine: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
  list: (skip: readonly string[]) => Promise<{ org_id: string; id: string }[]>,
  work: (tx: Db, row: DeploymentRow) => Promise<unknown>,
): Promise<number> {
  const open = await list(postponed.ids(engine.clock.now()));
  await eachApart(
    engine,
    postponed,
    open,
    ({ id }) => id,
    ({ org_id, id }) =>
      db.forOrg(org_id).transaction(async (tx) => {
        const [row] = await lockDeployments(tx, org_id, [id]);
        if (row !== undefined && !isTerminal(row.status)) await work(tx, row);
      }),
  );
  return open.length;
}
