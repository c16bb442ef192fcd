import {
  CHANNEL_KINDS,
  type ChannelKind,
  DELIVERY_STATUSES,
  type DeliveryStatus,
  SEVERITIES,
  type Severity,
} from "@roamfleet/protocol/states";
import type { Body } from "@roamfleet/sdk";
import { type Command, Option } from "commander";
import { collect, defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { askSecret } from "../secret.ts";
import { line } from "../text.ts";

type Channel = Body<"getChannel">["data"];

const routesText = ({ routes }: Channel): string =>
  routes.length === 0
    ? "all incidents"
    : routes
        .map(({ severities, site_id, fleet_id }) =>
          [severities?.join(", ") ?? "all", site_id, fleet_id].filter((part) => part !== undefined).join(" at "),
        )
        .join("; ");

const stateOf = ({ disabled_at }: Channel): string => (disabled_at === null ? "enabled" : "disabled");

export const list = defineCommand<[LimitOption]>(undefined, limitOption, (context, { limit }) =>
  printList(context, "listChannels", {
    limit,
    empty: "No channels yet. Create one: rf channels add <name> --kind webhook",
    columns: [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "KIND", value: ({ kind }) => kind },
      { title: "DESTINATION", value: ({ destination }) => destination },
      { title: "REPORTS", value: routesText },
      { title: "STATE", value: stateOf },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ],
  }),
);

function details({ out }: Context, channel: Channel): void {
  out.details([
    ["ID", channel.id],
    ["Name", channel.name],
    ["Kind", channel.kind],
    ["Destination", channel.destination],
    ["Reports", routesText(channel)],
    ["State", stateOf(channel)],
  ]);
}

export const show = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the channel"),
  (client, _, id: string) => client.getChannel({ params: { id } }),
  ({ data }, context) => details(context, data),
);

interface RouteOptions {
  severity?: Severity[];
  site?: string;
  fleet?: string;
}

const routeOptions = (command: Command): Command =>
  command
    .option("--severity <severity>", `Report only this severity: ${SEVERITIES.join(", ")}; repeatable`, collect)
    .option("--site <id>", "Report only incidents of this site")
    .option("--fleet <id>", "Report only incidents of this fleet");

/** Returns the route of the options; undefined if there are none. The server validates the severities. */
function routesOf({ severity, site, fleet }: RouteOptions): Channel["routes"] | undefined {
  if (severity === undefined && site === undefined && fleet === undefined) return undefined;
  return [
    {
      ...(severity === undefined ? {} : { severities: severity }),
      ...(site === undefined ? {} : { site_id: site }),
      ...(fleet === undefined ? {} : { fleet_id: fleet }),
    },
  ];
}

/** Returns where the messages go. URLs and keys are secrets, so they are prompted for or read from stdin, not passed as arguments. */
async function readTarget(kind: ChannelKind, to: string[] | undefined) {
  if (kind === "email") {
    if (to === undefined) throw usage("--kind email needs --to <address>");
    return { recipients: to };
  }
  if (to !== undefined) throw usage("--to is only for --kind email");
  if (kind === "pagerduty") return { routing_key: (await askSecret("Integration key")).trim() };
  return { url: (await askSecret("URL")).trim() };
}

export const add = defineCommand<[string, RouteOptions & { kind: ChannelKind; to?: string[] }]>(
  "Add a channel through which incidents are reported, by default all of the org. The URL of a webhook or of Slack, or the integration key " +
    "of PagerDuty, is prompted for or read from stdin.",
  (command) =>
    routeOptions(
      command
        .argument("<name>", "Name of the channel")
        .addOption(new Option("--kind <kind>", "Kind of the channel").choices(CHANNEL_KINDS).makeOptionMandatory())
        .option("--to <address>", "email: a recipient; repeatable", collect),
    ),
  async (context, name, { kind, to, ...route }) => {
    const target = await readTarget(kind, to);
    const client = await context.client();
    // Sends no idempotency key: the response to a retry would not contain the signing secret.
    const answer = await client.createChannel({ body: { name, kind, ...target, routes: routesOf(route) } });
    const { data } = answer;
    await context.out.result(answer, () => {
      details(context, data);
      if (data.signing_secret !== null) {
        context.out.details([["Signing secret", context.out.paint("strong", data.signing_secret)]]);
        context.out.line("\nThe signing secret is not shown again. Verify signatures with it.");
      }
      context.out.line(line`Next: rf channels test ${data.id}`);
    });
  },
  [
    "rf channels add on-call --kind webhook --severity critical < url.txt",
    "rf channels add kiosks --kind slack --fleet fleet_… < url.txt",
    "rf channels add team --kind email --to ops@example.org",
  ],
);

interface ChangeOptions extends RouteOptions {
  name?: string;
  all?: boolean;
  to?: string[];
  newTarget?: boolean;
  enable?: boolean;
  disable?: boolean;
}

export const change = defineCommand<[string, ChangeOptions]>(
  "Change a channel. Routes replace the earlier ones.",
  (command) =>
    routeOptions(command.argument("<id>", "ID of the channel").option("--name <name>", "New name"))
      .option("--all", "Report all incidents")
      .option("--to <address>", "email: a recipient, instead of the earlier ones; repeatable", collect)
      .option("--new-target", "Prompt for another URL or integration key, or read it from stdin")
      .option("--enable", "Send messages again")
      .option("--disable", "Stop sending messages"),
  async (context, id, { name, all, to, newTarget, enable, disable, ...route }) => {
    if (enable === true && disable === true) throw usage("--enable and --disable exclude each other");
    if (all === true && routesOf(route) !== undefined) throw usage("--all excludes --severity, --site and --fleet");
    const client = await context.client();
    const is_target_changed = newTarget === true || to !== undefined;
    const target = is_target_changed ? await readTarget((await client.getChannel({ params: { id } })).data.kind, to) : {};
    const enabled = enable === true ? true : disable === true ? false : undefined;
    const routes = all === true ? [] : routesOf(route);
    const answer = await client.updateChannel({ params: { id }, body: { name, ...target, routes, enabled } });
    await context.out.result(answer, () => details(context, answer.data));
  },
  ["rf channels change chn_… --severity critical --severity warning", "rf channels change chn_… --disable"],
);

export const test = requestCommand(
  "Send a test message to a channel.",
  (command) => command.argument("<id>", "ID of the channel"),
  (client, context, id: string) => client.testChannel({ params: { id }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => [line`Queued test message ${data.id}.`, line`See its result: rf channels deliveries ${data.channel_id}`],
);

export const deliveries = defineCommand<[string, LimitOption & { status?: DeliveryStatus }]>(
  "List the messages to a channel, newest first, with the result of the last attempt.",
  (command) =>
    limitOption(command.argument("<id>", "ID of the channel")).addOption(
      new Option("--status <status>", "Only messages in this status").choices(DELIVERY_STATUSES),
    ),
  (context, id, { limit, status }) =>
    printList(context, "listDeliveries", {
      params: { id },
      limit,
      query: { status },
      no_match: "No matching messages.",
      empty: line`No messages yet. Send one: rf channels test ${id}`,
      columns: [
        { title: "ID", value: (delivery) => delivery.id },
        { title: "KIND", value: ({ kind }) => kind },
        { title: "STATUS", value: (delivery) => delivery.status },
        { title: "ATTEMPTS", value: ({ attempts }) => attempts },
        { title: "RESULT", value: ({ detail }) => detail ?? "–" },
        { title: "INCIDENT", value: ({ incident_id }) => incident_id ?? "–" },
        { title: "NEXT ATTEMPT", value: ({ next_attempt_at }) => relative(next_attempt_at, context.now()), wide: true },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
      ],
    }),
);

export const resend = requestCommand(
  "Send a delivered or failed message again. The receiver gets the same message id.",
  (command) => command.argument("<delivery>", "ID of the message"),
  (client, context, id: string) => client.resendDelivery({ params: { id }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => line`Queued message ${data.id} again.`,
);

export const remove = requestCommand(
  "Remove a channel and the log of its messages.",
  (command) => command.argument("<id>", "ID of the channel"),
  (client, _, id: string) => client.deleteChannel({ params: { id } }),
  ({ data }) => line`Removed channel ${data.name}: ${data.id}`,
);
