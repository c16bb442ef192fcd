import type { WholeRollout } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import type { Decision } from "./decide.ts";
import { roomOf } from "./rollout/unavailable.ts";
import { wholeRollout } from "./rollout/whole-rollout.ts";
import { listGroups, listMembersOfGroups, wakeGroups } from "./store/groups.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { wakeWaitingForSlot } from "./store/waves.ts";

type Limits = Pick<WholeRollout, "max_parallel" | "max_unavailable">;
type Decided = { target: TargetRow; decision: Decision };

/** Whether the policy says how many robots may be at it at a time. */
export const isLimited = ({ rollout }: Pick<DeploymentRow, "rollout">): boolean =>
  rollout.max_parallel !== undefined || rollout.max_unavailable !== undefined;

/** Robots that are counted each time that one of them is done; to count more takes a good part of a second. */
const COUNTED_EACH_TIME_MAX = 5_000;
/** So often those are counted instead. */
export const COUNTED_EVERY_MS = 1_000;

/** Whether it takes long to find out who may go. */
export const isCountedSeldom = ({ rollout, count_total }: Pick<DeploymentRow, "rollout" | "count_total">): boolean =>
  rollout.max_unavailable !== undefined && count_total > COUNTED_EACH_TIME_MAX;

/** Targets woken at a time where only groups limit. */
const WAKE_MAX = 500;

/**
 * Of the targets that could go those that may by the limits of the policy, the first wave first; the others wait for a slot.
 * The caller holds the deployment's row locked, so that its counters stand.
 */
export async function limitSlots(tx: Db, deployment: DeploymentRow, decided: readonly Decided[]): Promise<Decided[]> {
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
  return decided.map(({ target, decision }) => ({ target, decision: refused.has(target.id) ? { wait: "slot" } : decision }));
}

/** Answers for one target after the other whether its group has room for it, and takes it. */
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
    // A robot that cannot be counted on already is no further one.
    if (roomOf(group, max_unavailable) + (member.away ? 1 : 0) <= 0) return false;
    if (!member.away) group.away += 1;
    return true;
  };
}

/** Lets as many of those that wait for a slot try again as there is room for. Answers how many. */
export async function wakeSlots(tx: Db, deployment: DeploymentRow): Promise<number> {
  if (!isLimited(deployment)) return 0;
  const { org_id, id } = deployment;
  const { max_parallel, max_unavailable } = wholeRollout(deployment.rollout);
  const slots = max_parallel === null ? WAKE_MAX : Math.min(max_parallel - deployment.count_active, WAKE_MAX);
  if (slots <= 0) return 0;
  if (max_unavailable === null) return wakeWaitingForSlot(tx, org_id, id, slots);
  const groups = await listGroups(tx, org_id, id, max_unavailable.group_by);
  const rooms = groups.map((group) => ({ name: group.name, room: roomOf(group, max_unavailable) }));
  return wakeGroups(tx, org_id, id, max_unavailable.group_by, rooms, slots);
}
