import type { AlertConditionType } from "@roamfleet/protocol";
import type { AlertMute, AlertRule, AlertRuleTest } from "@roamfleet/protocol/routes";
import { ALERT_CONDITIONS } from "@roamfleet/protocol/states";
import type { Body } from "@roamfleet/sdk";
import { Argument } from "commander";
import { defineCommand, printAnswer, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative, seconds } from "../duration.ts";
import { usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import {
  changeFields,
  changeOptions,
  type ChangeOptions,
  conditionOf,
  conditionText,
  matchFields,
  matchOptions,
  type MatchOptions,
  scopeText,
  severityOption,
  type SeverityOption,
} from "../rule-options.ts";
import { line } from "../text.ts";

const statusOf = ({ disabled_at }: AlertRule): string => (disabled_at === null ? "enabled" : "disabled");

export const list = defineCommand<[LimitOption]>(undefined, limitOption, (context, { limit }) =>
  printList(context, "listAlertRules", {
    limit,
    empty: "No alert rules yet. Create one: rf alerts create <name> <condition> --severity <severity>",
    columns: [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "CONDITION", value: conditionText },
      { title: "SEVERITY", value: ({ severity }) => context.out.status(severity) },
      { title: "SCOPE", value: scopeText },
      { title: "STATUS", value: (rule) => context.out.status(statusOf(rule)) },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ],
  }),
);

const idArgument = (command: Parameters<typeof limitOption>[0]) => command.argument("<id>", "ID of the rule");

export const show = requestCommand(
  undefined,
  idArgument,
  (client, _, id: string) => client.getAlertRule({ params: { id } }),
  ({ data }, context) => showRule(context, data),
);

interface CreateOptions extends MatchOptions, SeverityOption {
  disabled?: true;
  force?: true;
  dryRun?: true;
}

export const create = defineCommand<[string, AlertConditionType, CreateOptions]>(
  "Create an alert rule. It opens an incident when the condition is true for the given time. A rule that matches all robots of its scope now is refused unless --force is given.",
  (command) =>
    severityOption(
      matchOptions(
        command
          .argument("<name>", "Name of the rule")
          .addArgument(new Argument("<condition>", "Condition of the rule").choices(ALERT_CONDITIONS)),
      ),
      true,
    )
      .option("--disabled", "Do not evaluate the rule until it is enabled")
      .option("--force", "Accept a rule that matches all robots of its scope now")
      .option("--dry-run", "Print what the rule matches without creating it"),
  async (context, name, condition, options) => {
    const client = await context.client();
    const { severity, disabled, force, dryRun } = options;
    const fields = { name, severity: severity!, condition: conditionOf(condition, options), ...matchFields(options), force };
    const body = { ...fields, enabled: disabled === undefined ? undefined : false, dry_run: dryRun };
    const answer: { data: AlertRule | AlertRuleTest } = await client.createAlertRule({ body, idempotency_key: context.idempotencyKey() });
    const { data } = answer;
    await printAnswer(context, answer, () =>
      "match_count" in data ? showTest(context, data) : line`Created alert rule ${data.name}: ${data.id}`,
    );
  },
  [
    "rf alerts create 'Forklift offline' robot_offline --severity critical --for 5m --fleet fleet_…",
    "rf alerts create 'Disk' disk_above --percent 80 --severity warning --dry-run",
  ],
);

export const update = requestCommand(
  "Change an alert rule. A changed condition or scope restarts the durations of current matches.",
  (command) =>
    severityOption(changeOptions(idArgument(command)).option("--name <name>", "New name"), false).option(
      "--force",
      "Accept a rule that matches all robots of its scope now",
    ),
  (client, _, id: string, options: ChangeOptions & SeverityOption & { name?: string; force?: true }) => {
    const { name, severity, force } = options;
    const change = { name, severity, ...changeFields(options) };
    if (Object.values(change).every((value) => value === undefined))
      throw usage("nothing to change", "rf alerts update --help lists the options.");
    return client.updateAlertRule({ params: { id }, body: { ...change, force } });
  },
  ({ data }, context) => showRule(context, data),
  ["rf alerts update alr_… --severity critical --for 5m", "rf alerts update alr_… --condition disk_above --percent 80"],
);

export const test = requestCommand(
  "Print the robots or deployments that an alert rule matches now, and how often it would have fired in the stored history. Options test a changed rule without changing it.",
  (command) => changeOptions(idArgument(command)),
  (client, _, id: string, options: ChangeOptions) => client.testAlertRule({ params: { id }, body: changeFields(options) }),
  ({ data }, context) => showTest(context, data),
  ["rf alerts test alr_…", "rf alerts test alr_… --for 1m --site site_…"],
);

const toggle = (enabled: boolean) =>
  requestCommand(
    enabled
      ? "Enable an alert rule. A rule that matches all robots of its scope now is refused unless --force is given."
      : "Disable an alert rule. Its open incidents are resolved.",
    (command) =>
      enabled ? idArgument(command).option("--force", "Accept a rule that matches all robots of its scope now") : idArgument(command),
    (client, _, id: string, { force }: { force?: true }) => client.updateAlertRule({ params: { id }, body: { enabled, force } }),
    ({ data }) => line`Alert rule ${data.name} is ${statusOf(data)}.`,
  );
export const enable = toggle(true);
export const disable = toggle(false);

export const remove = requestCommand(
  "Remove an alert rule. Its open incidents are resolved.",
  idArgument,
  (client, _, id: string) => client.deleteAlertRule({ params: { id } }),
  ({ data }) => line`Removed alert rule ${data.name}: ${data.id}`,
);

export const mutes = defineCommand<[LimitOption]>(undefined, limitOption, (context, { limit }) =>
  printList(context, "listAlertMutes", {
    limit,
    empty: "No mutes. Mute incidents: rf alerts mute --for 2h --site <id>",
    columns: [
      { title: "ID", value: ({ id }) => id },
      { title: "MUTED", value: mutedText },
      { title: "FROM", value: ({ from_at }) => relative(from_at, context.now()) },
      { title: "UNTIL", value: ({ until_at }) => relative(until_at, context.now()) },
      { title: "REASON", value: ({ reason }) => reason ?? "" },
      { title: "BY", value: ({ created_by }) => created_by.name ?? created_by.type, wide: true },
    ],
  }),
);

const mutedText = ({ rule_id, fleet_id, site_id }: AlertMute): string =>
  [rule_id, fleet_id ?? site_id].filter((id) => id !== null).join(" in ") || "all";

interface MuteOptions {
  for: number;
  from?: string;
  site?: string;
  fleet?: string;
  rule?: string;
  reason?: string;
}

export const mute = requestCommand(
  "Mute incidents for a time: those of a rule, a fleet or a site, or all. Incidents are opened, but send no messages. A message that the mute delayed is sent at its end if the incident is still unresolved.",
  (command) =>
    command
      .requiredOption("--for <time>", "Length of the mute, such as 2h", seconds)
      .option("--from <time>", "Start of the mute, such as 2030-01-01T08:00:00Z (default: now)")
      .option("--site <id>", "Only incidents of this site")
      .option("--fleet <id>", "Only incidents of this fleet, and those of its site in which only robots of this fleet match")
      .option("--rule <id>", "Only incidents of this rule")
      .option("--reason <text>", "Why the incidents are muted"),
  (client, context, options: MuteOptions) => {
    const { from, site: site_id, fleet: fleet_id, rule: rule_id, reason } = options;
    const start = from === undefined ? context.now() : new Date(from);
    if (Number.isNaN(start.getTime())) throw usage(`--from ${from} is not a time`, "Use --from 2030-01-01T08:00:00Z.");
    const until_at = new Date(start.getTime() + options.for * 1_000).toISOString();
    const from_at = from === undefined ? undefined : start.toISOString();
    return client.createAlertMute({
      body: { site_id, fleet_id, rule_id, from_at, until_at, reason },
      idempotency_key: context.idempotencyKey(),
    });
  },
  ({ data }, context) => [
    line`Muted ${mutedText(data)} until ${data.until_at} (${relative(data.until_at, context.now())}): ${data.id}`,
    line`End it: rf alerts unmute ${data.id}`,
  ],
  ["rf alerts mute --for 2h --site site_… --reason 'Power maintenance'", "rf alerts mute --for 1d --rule alr_…"],
);

export const unmute = requestCommand(
  undefined,
  (command) => command.argument("<mute>", "ID of the mute"),
  (client, _, id: string) => client.deleteAlertMute({ params: { id } }),
  ({ data }) => line`Ended the mute of ${mutedText(data)}: ${data.id}`,
);

function showRule({ out, now }: Context, rule: Body<"getAlertRule">["data"]): void {
  out.details([
    ["ID", rule.id],
    ["Name", rule.name],
    ["Condition", conditionText(rule)],
    ["Severity", out.status(rule.severity)],
    ["Scope", scopeText(rule)],
    ["Status", out.status(statusOf(rule))],
    ["Changed", relative(rule.updated_at, now())],
  ]);
}

async function showTest({ out, now }: Context, { match_count, scope_count, matches, past }: AlertRuleTest): Promise<void> {
  out.line(
    scope_count === null ? line`Matches ${match_count} deployments now.` : line`Matches ${match_count} of ${scope_count} robots now.`,
  );
  if (past === null) out.line("In the past: unknown, because the state of this condition is not stored.");
  else {
    const { since, match_count: past_count, incident_count } = past;
    out.line(line`In the past, since ${relative(since, now())}: matches ${past_count}, incidents ${incident_count}.`);
  }
  if (matches.length === 0) return;
  out.line();
  await out.table(matches, [
    { title: "ID", value: ({ subject_id }) => subject_id },
    { title: "ROBOT", value: ({ robot_name }) => robot_name ?? "" },
    { title: "SITE", value: ({ site_id }) => site_id },
    { title: "FLEET", value: ({ fleet_id }) => fleet_id ?? "" },
  ]);
}
