import type { Deployment, WholeRollout } from "@roamfleet/protocol/routes";
import { policyLines, wholeWaveText } from "./rollout-text.ts";

export interface TargetOutcome {
  robot_id: string;
  status: string;
  reason: string | null;
}

export interface RobotDifference {
  robot_id: string;
  /** Undefined if the robot was not part of the deployment. */
  a: TargetOutcome | undefined;
  b: TargetOutcome | undefined;
}

/** Returns robots with different results in two deployments, or in only one of them; robots of the first one come first. */
export function differingRobots(a: readonly TargetOutcome[], b: readonly TargetOutcome[]): RobotDifference[] {
  const in_b = new Map(b.map((target) => [target.robot_id, target]));
  const in_a = new Set(a.map(({ robot_id }) => robot_id));
  return [
    ...a.flatMap((one) => {
      const other = in_b.get(one.robot_id);
      return other?.status === one.status && other.reason === one.reason ? [] : [{ robot_id: one.robot_id, a: one, b: other }];
    }),
    ...b.flatMap((one) => (in_a.has(one.robot_id) ? [] : [{ robot_id: one.robot_id, a: undefined, b: one }])),
  ];
}

/** Returns the seconds from start to end; undefined if the deployment has not started or not ended. */
export function secondsOf({ started_at, finished_at }: Pick<Deployment, "started_at" | "finished_at">): number | undefined {
  return started_at === null || finished_at === null ? undefined : (Date.parse(finished_at) - Date.parse(started_at)) / 1_000;
}

/** Returns the differences of two policies in words; "—" where one has no value. */
export function policyDifferences(a: WholeRollout, b: WholeRollout): { name: string; a: string; b: string }[] {
  const [in_a, in_b] = [new Map(allLines(a)), new Map(allLines(b))];
  return [...new Set([...in_a.keys(), ...in_b.keys()])].flatMap((name) => {
    const [one = "—", other = "—"] = [in_a.get(name), in_b.get(name)];
    return one === other ? [] : [{ name, a: one, b: other }];
  });
}

const allLines = (rollout: WholeRollout): (readonly [string, string])[] => [
  ...policyLines(rollout),
  ...(rollout.waves ?? []).map((wave, at) => [`Wave ${at + 1}`, wholeWaveText(wave)] as const),
];
