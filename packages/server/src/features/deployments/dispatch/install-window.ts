import type { Db } from "../../../kernel/db.ts";
import { nextWindow } from "../create/check-rollout.ts";
import { bumpGenerations, lockGenerations, setInstallWindow } from "../store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";
import { setWaitingForWindow } from "../store/targets.ts";
import { type Engine, HINT_PUSH } from "../transition.ts";

/** After its install window ends, a robot has this long to report that it has begun to install. */
const WINDOW_SLACK_MS = 600_000;
/** For a window that never opens again: the release is not installed, and the deployment expires. */
const NEVER = { install_from: new Date(8.64e15), install_until: new Date(8.64e15) };

interface InstallWindow {
  install_from: Date | null;
  install_until: Date | null;
}

/**
 * Returns the period in which a robot that gets this deployment at `now` may install it: the open window or, if none is open, the next one.
 * Both times are null if it may install at any time.
 */
export function installWindow({ rollout }: Pick<DeploymentRow, "rollout">, now: Date): InstallWindow {
  if (rollout.window === undefined) return { install_from: null, install_until: null };
  const window = nextWindow(rollout.window, now);
  return window === null ? NEVER : { install_from: window.opens_at, install_until: window.closes_at };
}

/**
 * For a target whose robot has downloaded the release, returns what the target waits for and its deadline. It waits for its window until
 * the window opens, and then for nothing. If the window has closed, the deadline is `now`, so that the robot is sent the next window.
 */
export function waitForWindow(
  { install_from, install_until }: InstallWindow,
  now: Date,
): { waiting_for: "window" | null; deadline_at: Date | undefined } {
  if (install_from === null || install_until === null) return { waiting_for: null, deadline_at: undefined };
  if (now >= install_until) return { waiting_for: "window", deadline_at: now };
  return { waiting_for: now < install_from ? "window" : null, deadline_at: new Date(install_until.getTime() + WINDOW_SLACK_MS) };
}

/**
 * Sends the next install window to robots that downloaded the release but missed their window. This does not count as an attempt, and
 * repeats until the deployment expires. The caller has locked the deployment and the targets.
 */
export async function moveToNextWindow(tx: Db, engine: Engine, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<void> {
  if (targets.length === 0) return;
  const { org_id } = deployment;
  const now = engine.clock.now();
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  await lockGenerations(tx, org_id, robot_ids);
  const window = installWindow(deployment, now);
  const notified_ids = (await setInstallWindow(tx, org_id, targets, window, now)).map(({ robot_id }) => robot_id);
  await bumpGenerations(tx, org_id, notified_ids, now);
  const { waiting_for, deadline_at } = waitForWindow(window, now);
  const ids = targets.map(({ id }) => id);
  await setWaitingForWindow(tx, org_id, ids, waiting_for, deadline_at ?? now);
  if (notified_ids.length > 0) tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: notified_ids }));
}
