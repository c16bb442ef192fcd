import type { Plane } from "../../context.ts";
import { listLivingNodes } from "../../link/index.ts";

/** Metrics are asked for when things go wrong: they do not wait for a database that is away. */
const COUNT_TIMEOUT_MS = 500;

/** Sets the number of nodes that live; what was counted last stays when the database does not answer in time. */
export async function countNodes({ db, clock, metrics }: Pick<Plane, "db" | "clock" | "metrics">): Promise<void> {
  const ended = new AbortController();
  const counted = listLivingNodes(db).then(
    (nodes) => metrics.nodes_living.set(nodes.length),
    () => {},
  );
  await Promise.race([counted, clock.sleep(COUNT_TIMEOUT_MS, ended.signal)]);
  ended.abort();
}
