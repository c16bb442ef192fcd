import { formatSeries } from "@roamfleet/protocol/metric-gate";
import type { AlertRule } from "@roamfleet/protocol/routes";
import type { AlertConditionType } from "@roamfleet/protocol/states";
import { durationText } from "../../ui/format.ts";

type Condition = AlertRule["condition"];

/** Texts for all conditions. Exhaustive: a new condition without a text does not compile. */
export const CONDITION_LABELS: Record<AlertConditionType, string> = {
  robot_offline: "Robot offline",
  check_failing: "Check failing",
  disk_above: "Disk usage above a limit",
  config_drift: "Config file differs from the deployed one",
  agent_outdated: "Agent outdated",
  metric_above: "Metric above a limit",
  metric_below: "Metric below a limit",
  metric_rate_above: "Metric rises faster than a limit",
  metric_absent: "Metric missing",
  deployment_failed: "Deployment failed",
  deployment_paused: "Deployment paused",
};

function detailOf({ type, check, percent = 90, below, metric, metric_labels, threshold, minutes }: Condition): string {
  const series = metric === undefined ? "" : formatSeries(metric, metric_labels);
  if (type === "metric_above") return `mean of ${series} in ${minutes ?? 5} min above ${threshold}`;
  if (type === "metric_below") return `mean of ${series} in ${minutes ?? 5} min below ${threshold}`;
  if (type === "metric_rate_above") return `${series} rises by more than ${threshold} per second in ${minutes ?? 5} min`;
  if (type === "metric_absent") return `no sample of ${series} for ${minutes ?? 60} min`;
  if (type === "disk_above") return `disk usage of ${percent}% or more`;
  if (type === "check_failing" && check !== undefined) return `check ${check} failing`;
  if (type === "agent_outdated" && below !== undefined) return `agent older than ${below}`;
  return CONDITION_LABELS[type].toLowerCase();
}

/** Describes when a rule opens an incident: "robot offline for 10 min". */
export const conditionText = ({ condition, for_seconds }: Pick<AlertRule, "condition" | "for_seconds">): string =>
  `${detailOf(condition)}${for_seconds === 0 ? "" : ` for ${durationText(for_seconds)}`}`;
