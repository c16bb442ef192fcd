import { INCIDENT_STATUSES, type IncidentStatus, SEVERITIES, type Severity } from "@roamfleet/protocol/states";
import { Option } from "commander";
import { defineCommand, printAnswer, requestCommand } from "../command.ts";
import { relative } from "../duration.ts";
import { usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { line } from "../text.ts";

interface ListOptions extends LimitOption {
  status?: IncidentStatus;
  unresolved?: true;
  severity?: Severity;
  site?: string;
  fleet?: string;
  robot?: string;
  rule?: string;
}

export const list = defineCommand<[ListOptions]>(
  undefined,
  (command) =>
    limitOption(command)
      .option("--unresolved", "Only open and acknowledged incidents")
      .addOption(new Option("--status <status>", "Only incidents in this status").choices(INCIDENT_STATUSES))
      .addOption(new Option("--severity <severity>", "Only incidents of this severity").choices(SEVERITIES))
      .option("--site <id>", "Only incidents of this site")
      .option("--fleet <id>", "Only incidents of this fleet")
      .option("--robot <id>", "Only incidents of this robot")
      .option("--rule <id>", "Only incidents of this rule"),
  (context, { limit, status, unresolved, severity, site, fleet, robot, rule }) =>
    printList(context, "listIncidents", {
      limit,
      query: { status, unresolved, severity, site_id: site, fleet_id: fleet, robot_id: robot, rule_id: rule },
      no_match: "No matching incidents.",
      empty: "No incidents. Alert rules open them: rf alerts list",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "TITLE", value: ({ title }) => title },
        { title: "SEVERITY", value: ({ severity }) => context.out.status(severity) },
        { title: "STATUS", value: ({ status }) => context.out.status(status) },
        {
          title: "MATCHING",
          value: ({ robot_name, active_count, member_count }) => robot_name ?? `${active_count} of ${member_count}`,
        },
        { title: "OPENED", value: ({ raised_at }) => relative(raised_at, context.now()) },
        { title: "ASSIGNEE", value: ({ assignee_name, assignee_id }) => assignee_name ?? assignee_id ?? "" },
        { title: "SITE", value: ({ site_id }) => site_id, wide: true },
        { title: "FLEET", value: ({ fleet_id }) => fleet_id ?? "whole site", wide: true },
        { title: "RULE", value: ({ rule_id }) => rule_id, wide: true },
      ],
    }),
  ["rf incidents list --unresolved", "rf incidents list --robot rob_…"],
);

/** Robots or deployments that `show` prints. */
const MEMBERS_SHOWN = 20;

const idArgument = (command: Parameters<typeof limitOption>[0]) => command.argument("<id>", "ID of the incident");

export const show = defineCommand<[string]>(
  `Show an incident with its latest history and the first ${MEMBERS_SHOWN} robots or deployments that match now.`,
  idArgument,
  async (context, id) => {
    const { out, now } = context;
    const client = await context.client();
    const answer = await client.getIncident({ params: { id } });
    await printAnswer(context, answer, async () => {
      const incident = answer.data;
      out.details([
        ["ID", incident.id],
        ["Title", incident.title],
        ["Severity", out.status(incident.severity)],
        ["Status", out.status(incident.status)],
        ["Matching", `${incident.active_count} of ${incident.member_count}`],
        ["Rule", incident.rule_id],
        ["Site", incident.site_id],
        ["Fleet", incident.fleet_id ?? undefined],
        ["Assignee", incident.assignee_name ?? incident.assignee_id ?? undefined],
        ["Opened", relative(incident.raised_at, now())],
        ["Reopened", incident.flap_count === 0 ? undefined : `${incident.flap_count} times`],
        ["Resolved", incident.resolved_at === null ? undefined : relative(incident.resolved_at, now())],
      ]);
      const members = await client.listIncidentMembers({ params: { id }, query: { active: true, limit: MEMBERS_SHOWN } });
      if (members.items.length > 0) {
        out.line();
        await out.table(members.items, [
          { title: "MATCHES NOW", value: ({ subject_id }) => subject_id },
          { title: "ROBOT", value: ({ robot_name }) => robot_name ?? "" },
          { title: "SINCE", value: ({ joined_at }) => relative(joined_at, now()) },
        ]);
        if (members.next_cursor !== null) out.note(`More robots match: rf api get /api/incidents/${incident.id}/members`);
      }
      const entries = await client.listIncidentEntries({ params: { id } });
      out.line();
      await out.table(entries.items, [
        { title: "TIME", value: ({ at }) => out.paint("quiet", relative(at, now())) },
        { title: "EVENT", value: ({ kind }) => kind },
        { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
        { title: "TEXT", value: ({ kind, comment }) => comment ?? (kind === "assigned" ? "no user" : "") },
      ]);
    });
  },
);

export const ack = requestCommand(
  undefined,
  idArgument,
  (client, _, id: string) => client.acknowledgeIncident({ params: { id } }),
  ({ data }) => line`Acknowledged incident ${data.title}: ${data.id}`,
);

export const resolve = requestCommand(
  "Resolve an incident. Robots that match now reopen it only after they have stopped matching.",
  (command) => idArgument(command).option("--comment <text>", "How it was resolved"),
  (client, _, id: string, { comment }: { comment?: string }) => client.resolveIncident({ params: { id }, body: { comment } }),
  ({ data }) => line`Resolved incident ${data.title}: ${data.id}`,
  ["rf incidents resolve inc_… --comment 'Replaced the switch'"],
);

export const comment = requestCommand(
  undefined,
  (command) => idArgument(command).argument("<text>", "The comment"),
  (client, _, id: string, text: string) => client.commentIncident({ params: { id }, body: { comment: text } }),
  ({ data }) => line`Added the comment to incident ${data.id}.`,
  ["rf incidents comment inc_… 'The switch of aisle 4 has no power'"],
);

interface AssignOptions {
  user?: string;
  none?: true;
}

export const assign = requestCommand(
  "Assign an incident to you, or to another user.",
  (command) => idArgument(command).option("--user <id>", "Assign it to this user (default: you)").option("--none", "Remove the assignee"),
  (client, _, id: string, { user, none }: AssignOptions) => {
    if (none === true && user !== undefined) throw usage("--none cannot be used with --user");
    if (none === true) return client.unassignIncident({ params: { id } });
    return client.assignIncident({ params: { id }, body: { user_id: user } });
  },
  ({ data }) =>
    data.assignee_id === null
      ? line`Incident ${data.id} has no assignee.`
      : line`Assigned incident ${data.id} to ${data.assignee_name ?? data.assignee_id}.`,
);
