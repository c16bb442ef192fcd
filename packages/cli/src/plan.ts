import type { ConfigDeploymentPlan, WholeRollout } from "@roamfleet/protocol/routes";
import type { Context } from "./context.ts";
import type { Column, Output } from "./output.ts";
import { waveText } from "./waves.ts";

/** Maximum robots of a plan that are printed; --json lists all. */
const ROBOTS_SHOWN_MAX = 20;

type PlannedWave = ConfigDeploymentPlan["waves"][number];
type PlannedRobot = ConfigDeploymentPlan["robots"][number];

interface Plan<Wave extends PlannedWave, Robot extends PlannedRobot> {
  total: number;
  rollout: WholeRollout;
  waves: readonly Wave[];
  robots: readonly Robot[];
}

/** What differs between the plans of releases and of configs. */
interface PlanParts<Wave, Robot> {
  details: Parameters<Output["details"]>[0];
  /** Columns after those of all plans. */
  wave_columns: readonly Column<Wave>[];
  /** Columns between the wave and the id. */
  robot_columns: readonly Column<Robot>[];
  note: string;
}

/** Prints the rollout plan of a deployment: details, waves, and its first robots. */
export async function printPlan<Wave extends PlannedWave, Robot extends PlannedRobot>(
  { out }: Context,
  answer: { data: Plan<Wave, Robot> },
  { details, wave_columns, robot_columns, note }: PlanParts<Wave, Robot>,
): Promise<void> {
  const { total, rollout, waves, robots } = answer.data;
  await out.result(answer, async () => {
    out.details(details);
    if (rollout.waves !== null) {
      out.line();
      await out.table(waves, [
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        { title: "SELECTION", value: ({ wave }) => waveText(rollout.waves?.[wave]) },
        { title: "ROBOTS", value: (wave) => wave.total },
        { title: "OFFLINE", value: ({ offline }) => offline },
        ...wave_columns,
      ]);
    }
    if (robots.length > 0) {
      out.line();
      await out.table(robots.slice(0, ROBOTS_SHOWN_MAX), [
        { title: "ROBOT", value: ({ name }) => name },
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        ...robot_columns,
        { title: "ID", value: ({ robot_id }) => robot_id },
      ]);
    }
    if (total > ROBOTS_SHOWN_MAX) out.line(`and ${total - ROBOTS_SHOWN_MAX} more: --json lists all`);
    out.note(note);
  });
}
