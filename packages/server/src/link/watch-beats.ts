import type { Clock } from "@roamfleet/clock";
import type { NodeBeat } from "./lease.ts";

const LOOK_EVERY_MS = 250;

/** Polls the runs that `look` returns until all of them have renewed, for `within_ms` at most. Returns whether each did. */
export async function watchBeats(
  look: () => Promise<NodeBeat[]>,
  { clock, within_ms, signal }: { clock: Pick<Clock, "monotonic" | "sleep">; within_ms: number; signal?: AbortSignal },
): Promise<(NodeBeat & { is_alive: boolean })[]> {
  const first = await look();
  const alive = new Set<string>();
  const end = clock.monotonic() + within_ms;
  while (alive.size < first.length && clock.monotonic() < end && signal?.aborted !== true) {
    await clock.sleep(LOOK_EVERY_MS, signal);
    const now = new Map((await look()).map((node) => [node.id, node]));
    for (const { id, epoch, beat } of first) {
      const then = now.get(id);
      if (then !== undefined && (then.epoch !== epoch || then.beat !== beat)) alive.add(id);
    }
  }
  return first.map((node) => ({ ...node, is_alive: alive.has(node.id) }));
}
