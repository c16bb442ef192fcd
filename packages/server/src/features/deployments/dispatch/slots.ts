import type { WholeRollout } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import type { Decision } from "../decide.ts";
import { roomOf } from "../rollout/rules.ts";
import { wholeRollout } from "../policy.ts";
import { listGroups, listMembersOfGroups, releaseHeld, wakeGroups } from "../store/waves.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";

type Limits = Pick<WholeRollout, "max_parallel" | "max_unavailable">;
type Decided = { target: TargetRow; decision: Decision };

/** Whether the policy limits the number of concurrent or unavailable robots. */
export const isLimited = ({ rollout }: Pick<DeploymentRow, "rollout">): boolean =>
  rollout.max_parallel !== undefined || rollout.max_unavailable !== undefined;

/**
 * Up to this number of robots in a deployment, its groups are counted each time a robot finishes. Counting more robots takes a considerable
 * part of a second. For groups, see `max_unavailable`.
 */
const EXACT_COUNT_ROBOTS_MAX = 5_000;
/** Interval at which the groups of larger deployments are counted. */
export const PERIODIC_COUNT_MS = 1_000;

/** Whether the groups are too large to count each time a robot finishes. */
export const usesPeriodicCount = ({ rollout, count_total }: Pick<DeploymentRow, "rollout" | "count_total">): boolean =>
  rollout.max_unavailable !== undefined && count_total > EXACT_COUNT_ROBOTS_MAX;

/** Maximum targets that one call wakes. */
const WAKE_MAX = 500;

/**
 * Applies the policy's limits to targets that could be dispatched, in the order of their waves. Targets beyond the limits wait for a slot.
 * The caller has locked the deployment's row, so its counters do not change.
 */
export async function limitSlots<D extends Decided>(tx: Db, deployment: DeploymentRow, decided: readonly D[]): Promise<D[]> {
  const limits: Limits = wholeRollout(deployment.rollout);
  if (!isLimited(deployment)) return [...decided];
  const going = decided
    .filter(({ decision }) => "dispatch" in decision)
    .toSorted(({ target: a }, { target: b }) => a.wave - b.wave || (a.id < b.id ? -1 : 1));
  if (going.length === 0) return [...decided];
  const room = await roomInGroups(tx, deployment, limits, going);
  let slots = (limits.max_parallel ?? Infinity) - deployment.count_active;
  const refused = new Set<string>();
  for (const { target } of going) {
    if (slots > 0 && room(target.id)) slots -= 1;
    else refused.add(target.id);
  }
  return decided.map((one) => (refused.has(one.target.id) ? { ...one, decision: { wait: "slot" } } : one));
}

/** Returns a function that reserves room for a target in its group and returns whether there was room. */
async function roomInGroups(
  tx: Db,
  { org_id, id }: DeploymentRow,
  { max_unavailable }: Limits,
  going: readonly Decided[],
): Promise<(target_id: string) => boolean> {
  if (max_unavailable === null) return () => true;
  const groups = new Map((await listGroups(tx, org_id, id, max_unavailable.group_by)).map((group) => [group.name, group]));
  const ids = going.map(({ target }) => target.id);
  const members = new Map((await listMembersOfGroups(tx, org_id, id, max_unavailable.group_by, ids)).map((one) => [one.id, one]));
  return (target_id) => {
    const member = members.get(target_id);
    const group = groups.get(member?.name ?? "");
    if (member === undefined || group === undefined) return false;
    // Robots that are already unavailable do not count against the budget.
    if (roomOf(group, max_unavailable) + (member.unavailable ? 1 : 0) <= 0) return false;
    if (!member.unavailable) group.unavailable += 1;
    return true;
  };
}

/** Wakes as many targets that wait for a slot as there is room for. Returns how many. */
export async function wakeSlots(tx: Db, deployment: DeploymentRow): Promise<number> {
  if (!isLimited(deployment)) return 0;
  const { org_id, id } = deployment;
  const { max_parallel, max_unavailable } = wholeRollout(deployment.rollout);
  const slots = max_parallel === null ? WAKE_MAX : Math.min(max_parallel - deployment.count_active, WAKE_MAX);
  if (slots <= 0) return 0;
  if (max_unavailable === null) return releaseHeld(tx, deployment, "slot", null, slots);
  const groups = await listGroups(tx, org_id, id, max_unavailable.group_by);
  const rooms = groups.map((group) => ({ name: group.name, room: roomOf(group, max_unavailable) }));
  return wakeGroups(tx, org_id, id, max_unavailable.group_by, rooms, slots);
}
