import type { Plane } from "../../context.ts";
import { listLivingNodes } from "../../link/index.ts";

/** Metrics are needed during failures, so they do not wait longer for the database. */
const COUNT_TIMEOUT_MS = 500;

/** Sets the metric of live nodes. Keeps the last count if the database does not answer in time. */
export async function countNodes({ db, clock, metrics }: Pick<Plane, "db" | "clock" | "metrics">): Promise<void> {
  const ended = new AbortController();
  const counted = listLivingNodes(db).then(
    (nodes) => metrics.nodes_living.set(nodes.length),
    () => {},
  );
  await Promise.race([counted, clock.sleep(COUNT_TIMEOUT_MS, ended.signal)]);
  ended.abort();
}
