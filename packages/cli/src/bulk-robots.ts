import type { Arguments, Body } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { line } from "./text.ts";

type Change = Omit<Arguments<"bulkUpdateRobots">["body"], "robot_ids">;

/** Robots per request: the maximum that the service accepts. */
const AT_ONCE = 1_000;

/** Changes many robots, reports each failure with its reason, and exits with the code of the first failure. */
export async function changeRobots(context: Context, ids: readonly string[], change: Change, done: string): Promise<void> {
  const client = await context.client();
  const items: Body<"bulkUpdateRobots">["items"] = [];
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    const body = { ...change, robot_ids: ids.slice(from, from + AT_ONCE) };
    items.push(...(await client.bulkUpdateRobots({ body, idempotency_key: context.idempotencyKey() })).items);
  }
  const refused = items.filter(({ outcome }) => !(outcome in GOOD));
  const count = (outcome: string): number => items.filter((item) => item.outcome === outcome).length;
  await context.out.result({ items }, () => {
    const [changed, unchanged] = [count("changed"), count("unchanged")];
    if (changed > 0) context.out.line(line`${done} ${String(changed)} ${changed === 1 ? "robot" : "robots"}.`);
    if (unchanged > 0) context.out.line(line`${String(unchanged)} ${unchanged === 1 ? "was" : "were"} already up to date.`);
  });
  const [first] = refused;
  if (first === undefined) return;
  throw new Failure(
    CODES[first.outcome] ?? EXIT.error,
    refused.length === 1 ? (first.message ?? first.outcome) : `${refused.length} of ${items.length} robots were not changed`,
    { document: undefined, hints: refused.length === 1 ? [] : refused.slice(0, 10).map(({ robot_id, message }) => message ?? robot_id) },
  );
}

const GOOD: Record<string, true> = { changed: true, unchanged: true };
const CODES: Record<string, ExitCode> = { not_found: EXIT.not_found, forbidden: EXIT.auth, conflict: EXIT.conflict };
