import { isTerminal, type Reason, type TargetStatus } from "@roamfleet/protocol";

/** Ended targets of a deployment by status and reason; those without a reason are counted under "". Zeros are left out. */
export type ReasonCounts = Readonly<Partial<Record<TargetStatus, Readonly<Partial<Record<Reason | "", number>>>>>>;

interface Ended {
  status: TargetStatus;
  reason: Reason | null;
}

/** Returns the counts after these targets have moved. Pure. */
export function countReasons(
  counts: ReasonCounts,
  moves: readonly { target: Ended; to: TargetStatus; reason: Reason | null }[],
): ReasonCounts {
  const next: Partial<Record<TargetStatus, Partial<Record<Reason | "", number>>>> = { ...counts };
  const add = ({ status, reason }: Ended, by: number): void => {
    if (!isTerminal(status)) return;
    const { [reason ?? ""]: count = 0, ...others } = next[status] ?? {};
    next[status] = count + by === 0 ? others : { ...others, [reason ?? ""]: count + by };
  };
  for (const { target, to, reason } of moves) {
    add(target, -1);
    add({ status: to, reason }, 1);
  }
  return next;
}

/** Returns the most frequent reason of targets with one of these statuses; of equally frequent ones the first by name. Pure. */
export function commonestReason(counts: ReasonCounts, statuses: readonly TargetStatus[]): Reason | null {
  const sums = new Map<Reason | "", number>();
  for (const status of statuses)
    for (const [reason, count] of Object.entries(counts[status] ?? {}))
      sums.set(reason as Reason | "", (sums.get(reason as Reason | "") ?? 0) + count);
  // "No reason" sorts after all reasons.
  const order = (reason: string): string => (reason === "" ? "~" : reason);
  const [first] = [...sums].toSorted(([a, m], [b, n]) => n - m || (order(a) < order(b) ? -1 : 1));
  return first === undefined || first[0] === "" ? null : first[0];
}
