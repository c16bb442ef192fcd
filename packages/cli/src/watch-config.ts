import { isTerminal } from "@roamfleet/protocol";
import type { Body, Client } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { line } from "./text.ts";
import { explainWaits, STILL_MS, TARGETS_EXPLAINED_MAX, WAITS } from "./watch.ts";

const POLL_MS = 2_000;
const TARGETS_SHOWN_MAX = 10;
const CONFIG_WAITS = { ...WAITS, previous_deployment: "are still applying an older config" };

export type ConfigDeployment = Body<"getConfigDeployment">["data"];

/**
 * Polls a config deployment every 2 seconds until it ends and prints changes. Returns the deployment if it ended as `applied`; throws a
 * Failure otherwise, and on Ctrl-C: the deployment continues.
 */
export async function watchConfigDeployment(context: Context, client: Client, start: ConfigDeployment): Promise<ConfigDeployment> {
  const signal = context.interruptible();
  const { id } = start;
  let [deployment, shown, moved_at_ms] = [start, "", context.clock.monotonic()];
  try {
    for (;;) {
      deployment = (await client.getConfigDeployment({ params: { id }, signal })).data;
      const text = progressText(context, deployment);
      if (!context.structured && text !== shown) context.out.line(text);
      if (isTerminal(deployment.status)) break;
      const still = text === shown && context.clock.monotonic() - moved_at_ms >= STILL_MS;
      if (still && !context.structured) for (const reason of await explain(client, deployment, signal)) context.out.note(reason);
      if (still || text !== shown) moved_at_ms = context.clock.monotonic();
      shown = text;
      await context.clock.sleep(POLL_MS, signal);
      signal.throwIfAborted();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    const message = `stopped watching; the deployment continues. Show its events: rf configs events ${id}`;
    throw new Failure(EXIT.interrupted, message, { bare: true, document: { data: deployment } });
  }
  if (deployment.status === "applied") return deployment;
  const { status, reason } = deployment;
  throw new Failure(EXIT.not_applied, `config deployment ${id} ended ${status}${reason === null ? "" : `: ${reason}`}`, {
    hints: await reasonsOf(client, id),
    document: { data: deployment },
  });
}

/** Returns why nothing has changed for a minute. */
async function explain(client: Client, { id, counts }: ConfigDeployment, signal: AbortSignal): Promise<string[]> {
  const { items } = await client.listConfigDeploymentTargets({ params: { id }, query: { limit: TARGETS_EXPLAINED_MAX }, signal });
  return explainWaits(counts.total, items, CONFIG_WAITS);
}

function progressText({ out }: Context, { status, counts }: ConfigDeployment): string {
  const parts = (["queued", "active", "failed", "cancelled"] as const).flatMap((name) =>
    counts[name] === 0 ? [] : [`${counts[name]} ${name}`],
  );
  return line`${out.status(status)}: ${[`${counts.applied} of ${counts.total} applied`, ...parts].join(", ")}`;
}

/** Returns the server's event messages, which contain details that the reason code lacks. */
async function reasonsOf(client: Client, id: string): Promise<string[]> {
  const { items } = await client.listConfigDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } });
  const ends = items.filter(({ target_status }) => target_status !== null && isTerminal(target_status) && target_status !== "applied");
  const lines = ends.slice(0, TARGETS_SHOWN_MAX).map(({ robot_id, message }) => line`${robot_id}: ${message}`);
  return ends.length > TARGETS_SHOWN_MAX ? [...lines, `and ${ends.length - TARGETS_SHOWN_MAX} more`] : lines;
}
