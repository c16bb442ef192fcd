import { formatSeries, parseSeries } from "@roamfleet/protocol/metric-gate";
import type { AlertConditionType } from "@roamfleet/protocol";
import { ALERT_CONDITIONS, SEVERITIES, type Severity } from "@roamfleet/protocol/states";
import type { AlertCondition, AlertRule } from "@roamfleet/protocol/routes";
import { type Command, InvalidArgumentError, Option } from "commander";
import { collect, wholeNumber } from "./command.ts";
import { duration, seconds } from "./duration.ts";
import { usage } from "./failure.ts";
import { readLabels } from "./labels.ts";
import { labelsText } from "./text.ts";

interface ConditionOptions {
  check?: string;
  percent?: number;
  below?: string;
  metric?: { name: string; labels: Record<string, string> };
  threshold?: number;
  minutes?: number;
}

interface ScopeOptions {
  site?: string;
  fleet?: string;
  label?: string[];
}

/** Options that change what a rule matches. */
export interface MatchOptions extends ConditionOptions, ScopeOptions {
  for?: number;
}

export interface ChangeOptions extends MatchOptions {
  condition?: AlertConditionType;
  wholeOrg?: true;
}

export const matchOptions = (command: Command): Command =>
  command
    .option("--check <name>", "check_failing: only this check (default: any)")
    .option("--percent <n>", "disk_above: used share of a disk (default: 90)", wholeNumber(1))
    .option("--below <version>", "agent_outdated: oldest current version (default: the server's version)")
    .option("--metric <name>", "metric_…: the metric, such as cpu_percent or disk_used_bytes{mount=/data}", metric)
    .option("--threshold <n>", "metric_above, metric_below, metric_rate_above (per second): the limit", number)
    .option(
      "--minutes <n>",
      "metric_…: period of the mean or rate (default: 5); metric_absent: time without a sample (default: 60)",
      wholeNumber(1),
    )
    .option("--for <time>", "How long the condition must be true, such as 10m", seconds)
    .option("--site <id>", "Only robots of this site")
    .option("--fleet <id>", "Only robots of this fleet")
    .option("--label <key=value>", "Only robots with this label (repeatable; all must match)", collect);

function metric(text: string): NonNullable<ConditionOptions["metric"]> {
  const series = parseSeries(text);
  if (series === undefined) throw new InvalidArgumentError("Expected a name such as cpu_percent or disk_used_bytes{mount=/data}.");
  return series;
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("Expected a number.");
  return value;
}

export const changeOptions = (command: Command): Command =>
  matchOptions(command)
    .addOption(new Option("--condition <type>", "Another condition; give its parameters, too").choices(ALERT_CONDITIONS))
    .option("--whole-org", "Remove the limit to a site or fleet");

export const severityOption = (command: Command, mandatory: boolean): Command =>
  command.addOption(new Option("--severity <severity>", "Severity of the incidents").choices(SEVERITIES).makeOptionMandatory(mandatory));

export interface SeverityOption {
  severity?: Severity;
}

export const conditionOf = (
  type: AlertConditionType,
  { check, percent, below, metric: series, threshold, minutes }: ConditionOptions,
): AlertCondition => ({
  type,
  ...(check === undefined ? {} : { check }),
  ...(percent === undefined ? {} : { percent }),
  ...(below === undefined ? {} : { below }),
  ...(series === undefined ? {} : { metric: series.name }),
  ...(series === undefined || Object.keys(series.labels).length === 0 ? {} : { metric_labels: series.labels }),
  ...(threshold === undefined ? {} : { threshold }),
  ...(minutes === undefined ? {} : { minutes }),
});

/** Returns the fields of a request for the duration and the scope. */
export const matchFields = ({ for: for_seconds, site: site_id, fleet: fleet_id, label }: MatchOptions) => ({
  for_seconds,
  site_id,
  fleet_id,
  labels: label === undefined ? undefined : readLabels(label),
});

/** Returns the fields of a request that change what a rule matches. */
export function changeFields(options: ChangeOptions) {
  const { condition, wholeOrg } = options;
  const given = ["check", "percent", "below", "metric", "threshold", "minutes"] as const satisfies (keyof ConditionOptions)[];
  if (condition === undefined && given.some((name) => options[name] !== undefined))
    throw usage("the options of a condition need --condition", "Use --condition disk_above --percent 80.");
  return {
    ...matchFields(options),
    condition: condition === undefined ? undefined : conditionOf(condition, options),
    whole_org: wholeOrg,
  };
}

/** Returns the condition of a rule as text, such as `disk_above 90% for 10 min`. */
export function conditionText({ condition, for_seconds }: AlertRule): string {
  const { type, check, percent, below, metric: name, metric_labels, threshold, minutes } = condition;
  const parameters =
    name === undefined
      ? [check ?? (percent === undefined ? below : `${percent}%`)]
      : [formatSeries(name, metric_labels), threshold, minutes === undefined ? undefined : `(${minutes} min)`];
  return [
    type,
    ...parameters.filter((parameter) => parameter !== undefined),
    ...(for_seconds === 0 ? [] : [`for ${duration(for_seconds)}`]),
  ].join(" ");
}

/** Returns the scope of a rule as text. */
export const scopeText = ({ site_id, fleet_id, labels }: Pick<AlertRule, "site_id" | "fleet_id" | "labels">): string =>
  [fleet_id ?? site_id ?? "whole org", ...(Object.keys(labels).length === 0 ? [] : [labelsText(labels)])].join(" ");
