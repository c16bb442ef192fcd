import type { Arguments, Body } from "@robofleet/sdk";
import type { Context } from "./context.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { line } from "./text.ts";

type Change = Omit<Arguments<"bulkUpdateRobots">["body"], "robot_ids">;

/** Robots of a request: as many as the service takes at once. */
const AT_ONCE = 1_000;

/** Changes many robots and tells of those that were not, each with why; then it ends with the code of the first. */
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
    if (unchanged > 0) context.out.line(line`${String(unchanged)} ${unchanged === 1 ? "was" : "were"} so already.`);
  });
  const [first] = refused;
  if (first === undefined) return;
  throw new Failure(
    CODES[first.outcome] ?? EXIT.error,
    refused.length === 1 ? (first.message ?? first.outcome) : `${refused.length} of ${items.length} robots stay as they were`,
    { document: undefined, hints: refused.length === 1 ? [] : refused.slice(0, 10).map(({ robot_id, message }) => message ?? robot_id) },
  );
}

const GOOD: Record<string, true> = { changed: true, unchanged: true };
const CODES: Record<string, ExitCode> = { not_found: EXIT.not_found, forbidden: EXIT.auth, conflict: EXIT.conflict };
