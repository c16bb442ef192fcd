import type { Condition } from "../../packages/server/src/features/deployments/explain/conditions.ts";
import { Broken } from "./invariants.ts";
import type { Names, Operation, TargetView } from "./server.ts";

/** Maximum number of times that the proposed changes are applied until the target must have moved. */
const ROUNDS_MAX = 60;
const ROUND_MS = 120_000;

/** What a schedule does for `followExplanation`, without failures. */
export interface Actions {
  names: Names;
  now: () => Date;
  targets: () => readonly TargetView[];
  /** Returns the unmet conditions of a target. */
  explain: (target_id: string) => readonly Condition[];
  perform: (operation: Operation) => Promise<void>;
  connect: (robot_id: string) => Promise<void>;
  advance: (ms: number) => Promise<void>;
  /** Runs every loop, and delivers the messages of connected robots. */
  settle: () => Promise<void>;
}

/**
 * Applies the changes that the explanation of a waiting target proposes, again and again as new conditions appear, while the robots work
 * without failures. Throws `Broken` if the target, or the one that replaces it, does not move.
 */
export async function followExplanation(target_id: string, actions: Actions): Promise<void> {
  let id = target_id;
  let unexplained = 0;
  const find = () => actions.targets().find((one) => one.id === id);
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const target = find();
    if (target === undefined || (target.status !== "pending" && target.status !== "queued")) return;
    const unmet = actions.explain(id);
    if (unmet.some(({ change }) => change?.command?.startsWith("rf deploy ") === true)) id = await deployAgain(target, actions);
    else if (unmet.length === 0) await actions.advance(ROUND_MS);
    else for (const condition of unmet) await apply(condition, target, actions);
    await actions.settle();
    // What happens in a round may keep the target from moving, for example another robot that takes the slot. So each robot of the deployment
    // may go first once. Then an explanation must name what keeps this one.
    unexplained = unmet.length === 0 ? unexplained + 1 : 0;
    const others = actions.targets().filter(({ deployment_id }) => deployment_id === target.deployment_id).length;
    if (unexplained > others && find()?.status === target.status) throw new Broken(`${id} waits, and its explanation names nothing`);
  }
  throw new Broken(`${id} has not moved, although every change that its explanations propose was applied`);
}

/** Deploys the target's release to its robot again. Returns the id of the new target. */
async function deployAgain({ robot_id, release_id }: TargetView, { names, perform, targets }: Actions): Promise<string> {
  const [robot, release] = [names.robots.indexOf(robot_id), names.releases.indexOf(release_id ?? "")];
  await perform({ type: "create", release, robot, fleet: null, scheduled_in_ms: null, rollout: {} });
  return targets().at(-1)?.id ?? "";
}

/** Applies the change that a condition proposes, or lets the named time pass. */
async function apply({ name, until, change }: Condition, { deployment_id, robot_id }: TargetView, actions: Actions): Promise<void> {
  if (until !== null) return actions.advance(Math.max(1, Date.parse(until) - actions.now().getTime()));
  if (name === "not_paused") return actions.perform({ type: "resume", deployment_id });
  if (change?.command?.startsWith("rf deployments promote") === true) return actions.perform({ type: "promote", deployment_id });
  if (name === "robot_online") return actions.connect(robot_id);
  if (name !== "wave" && name !== "max_unavailable" && name !== "max_parallel" && name !== "previous_deployment") return;
  // These wait for other robots, or for another deployment of the same robot: let them finish.
  for (const one of actions.targets().filter((other) => other.deployment_id === deployment_id)) await actions.connect(one.robot_id);
  await actions.advance(ROUND_MS);
}
