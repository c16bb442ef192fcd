import type { Body } from "@roamfleet/sdk";
import { Option } from "commander";
import { defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { usage } from "../failure.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { line } from "../text.ts";

export const list = defineCommand<[LimitOption & { site?: string; search?: string }]>(
  undefined,
  (command) =>
    limitOption(command)
      .option("--site <id>", "Only fleets at this site")
      .option("--search <text>", "Only fleets whose name contains this text, ignoring case"),
  (context, { limit, site, search }) =>
    printList(context, "listFleets", {
      limit,
      query: { site_id: site, q: search },
      no_match: "No matching fleets.",
      empty: "No fleets yet. Create one: rf fleets create <name> --site <id>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "NAME", value: ({ name }) => name },
        { title: "SITE", value: ({ site_id }) => site_id },
        { title: "ROBOTS", value: ({ robot_count }) => robot_count },
        { title: "ONLINE", value: ({ online_count }) => online_count },
        {
          title: "DESIRED",
          value: ({ desired }) =>
            Object.entries(desired)
              .map(([app, { tag }]) => `${app} ${tag}`)
              .join(", ") || "–",
        },
        { title: "FOLLOWS", value: ({ follow }) => (follow ? "yes" : "no"), wide: true },
        { title: "CONFIG", value: ({ config_revision }) => config_revision ?? "–", wide: true },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    }),
);

export const show = requestCommand(
  "Show a fleet: its robots, the releases of its last applied deployments, and whether joining robots update to them.",
  (command) => command.argument("<id>", "ID of the fleet"),
  (client, _, id: string) => client.getFleet({ params: { id } }),
  ({ data }, context) => showFleet(context, data),
);

export const create = requestCommand(
  undefined,
  (command) => command.argument("<name>", "Name of the fleet").requiredOption("--site <id>", "Site of the fleet"),
  (client, context, name: string, { site }: { site: string }) =>
    client.createFleet({ body: { name, site_id: site }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => [line`Created fleet ${data.name}: ${data.id}`, line`Next: rf keys new --site ${data.site_id} --fleet ${data.id}`],
);

export const update = defineCommand<[string, { name?: string; follow?: "on" | "off" }]>(
  "Rename a fleet, or set whether robots that join or reconnect late update automatically to its releases and config.",
  (command) =>
    command
      .argument("<id>", "ID of the fleet")
      .option("--name <name>", "New name")
      .addOption(new Option("--follow <on|off>", "Update robots automatically to the fleet's releases and config").choices(["on", "off"])),
  async (context, id, { name, follow }) => {
    if (name === undefined && follow === undefined) throw usage("nothing to change: use --name or --follow");
    const body = { name, follow: follow === undefined ? undefined : follow === "on" };
    const answer = await (await context.client()).updateFleet({ params: { id }, body });
    await context.out.result(answer, () => showFleet(context, answer.data));
  },
);

export const remove = requestCommand(
  "Remove a fleet that has no robots, with its enrollment keys.",
  (command) => command.argument("<id>", "ID of the fleet"),
  (client, _, id: string) => client.deleteFleet({ params: { id } }),
  ({ data }) => line`Removed fleet ${data.name}: ${data.id}`,
);

function showFleet({ out, now }: Context, fleet: Body<"getFleet">["data"]): void {
  const desired = Object.entries(fleet.desired).map(([app, { id, tag }]) => `${app} ${tag} (${id})`);
  out.details([
    ["ID", fleet.id],
    ["Name", fleet.name],
    ["Site", fleet.site_id],
    ["Robots", `${fleet.robot_count}, ${fleet.online_count} of them online`],
    ["Desired", desired.length === 0 ? "no release applied to the whole fleet yet" : desired.join(", ")],
    ["Config", fleet.config_revision ?? undefined],
    ["Follow", fleet.follow ? "on: robots that join or reconnect late update automatically" : "off"],
    ["Created", relative(fleet.created_at, now())],
  ]);
}
