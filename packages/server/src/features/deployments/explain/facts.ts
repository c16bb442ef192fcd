import type { DispatchFacts } from "../decide.ts";
import type { Group, WaveFacts } from "../rollout/rules.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";

/** What an explanation needs to know about one robot and one deployment. */
export interface ExplainFacts {
  robot: {
    id: string;
    fleet_id: string;
    /** When it was last connected; null: never. */
    last_seen_at: Date | null;
    quarantined: boolean;
    arch: string | null;
  };
  deployment: DeploymentRow;
  /** Undefined if the deployment does not include the robot, or not yet. */
  target: TargetRow | undefined;
  /** The name of the release, and the architecture that it is for; null: any. */
  release: { tag: string; arch: string | null };
  /** What dispatch would decide from. Of a deployment without a target for the robot, as if it had one. */
  dispatch: DispatchFacts;
  /** The newer deployment that was dispatched to the robot for the same app. */
  newer_deployment_id: string | null;
  /** The wave that was opened last; undefined without waves, or while robots are being assigned to them. */
  wave: WaveFacts | undefined;
  /** The robot's group for `max_unavailable`, and whether the robot is unavailable already; undefined without that limit. */
  group: (Group & { robot_unavailable: boolean }) | undefined;
  /** Details of how the robot's last attempt ended, in the robot's or the server's words. */
  detail: string | null;
}

export interface Change {
  message: string;
  command: string | null;
}
export type Found = { met: true | null; message: string } | { met: false; message: string; until?: Date | null; change?: Change };

/** Checks one condition; returns undefined if it does not apply to the deployment. */
export type Check = (facts: ExplainFacts, now: Date) => Found | undefined;

export const met = (message: string): Found => ({ met: true, message });
export const unknown = (message: string): Found => ({ met: null, message });
export const unmet = (message: string, change?: Change, until?: Date | null): Found => ({
  met: false,
  message,
  ...(change === undefined ? {} : { change }),
  ...(until === undefined ? {} : { until }),
});
export const run = (command: string, message: string): Change => ({ message, command });
export const doing = (message: string): Change => ({ message, command: null });

export const deployAgain = ({ robot, release }: ExplainFacts): Change =>
  run(`rf deploy ${release.tag} --robot ${robot.id}`, "deploy the release to this robot again");
