import type { ConfigDeployment, ConfigDeploymentPlan, Deployment, DeploymentPlan } from "@roamfleet/protocol/routes";
import type { Command } from "commander";
import { collect } from "./command.ts";
import { usage } from "./failure.ts";
import { readLabels } from "./labels.ts";

/** The options that choose the robots of a deployment. */
export interface TargetOptions {
  robot?: string;
  fleet?: string;
  site?: string;
  label?: string[];
}

export const targetOptions = (command: Command): Command =>
  command
    .option("--robot <id>", "Deploy to this robot")
    .option("--fleet <id>", "Deploy to this fleet; with --site or --label, only to its matching robots")
    .option("--site <id>", "Deploy to the robots of this site")
    .option("--label <key=value>", "Deploy to the robots with this label (repeatable; all must match)", collect);

/** Returns the fields of a request for its target. Throws a usage Failure unless the options choose exactly one. */
export function targetFields({ robot, fleet, site, label }: TargetOptions) {
  const selects = site !== undefined || label !== undefined;
  const other = Object.entries({ fleet, site, label }).find(([, value]) => value !== undefined)?.[0];
  if (robot !== undefined && other !== undefined) throw usage(`--robot and --${other} cannot be used together`, IDS);
  if (robot === undefined && other === undefined)
    throw usage("a target is required: --robot <id>, --fleet <id>, --site <id> or --label <key=value>", IDS);
  if (!selects) return { robot_id: robot, fleet_id: fleet };
  return {
    target_selector: {
      ...(site === undefined ? {} : { site_id: site }),
      ...(fleet === undefined ? {} : { fleet_id: fleet }),
      ...(label === undefined ? {} : { labels: readLabels(label) }),
    },
  };
}

const IDS = "`rf robots list`, `rf fleets list` and `rf sites list` show the ids.";

type Targeted = Pick<
  Deployment | ConfigDeployment | DeploymentPlan | ConfigDeploymentPlan,
  "target_kind" | "robot_id" | "fleet_id" | "selection"
>;

/** The target of a deployment as text, with the kind of its id. */
export const targetText = ({ target_kind, robot_id, fleet_id, selection }: Targeted): string =>
  selection ?? `${target_kind} ${robot_id ?? fleet_id}`;

/** The target of a deployment as the cell of a list. */
export const targetCell = ({ robot_id, fleet_id, selection }: Targeted): string | null => selection ?? robot_id ?? fleet_id;
