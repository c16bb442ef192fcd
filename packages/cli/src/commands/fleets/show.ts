import type { Body } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  command
    .description("Show a fleet: its robots, the releases of its last applied deployments, and whether joining robots update to them.")
    .argument("<id>", "Id of the fleet")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).getFleet({ params: { id } });
  await context.out.result(answer, () => showFleet(context, answer.data));
}

export function showFleet({ out, now }: Context, fleet: Body<"getFleet">["data"]): void {
  const desired = Object.entries(fleet.desired).map(([app, { id, tag }]) => `${app} ${tag} (${id})`);
  out.details([
    ["Id", fleet.id],
    ["Name", fleet.name],
    ["Site", fleet.site_id],
    ["Robots", `${fleet.robot_count}, ${fleet.online_count} of them online`],
    ["Desired", desired.length === 0 ? "no release applied to the whole fleet yet" : desired.join(", ")],
    ["Config", fleet.config_revision ?? undefined],
    ["Follow", fleet.follow ? "on: robots that join or reconnect late update automatically" : "off"],
    ["Created", relative(fleet.created_at, now())],
  ]);
}
