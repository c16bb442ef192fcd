import type { Body } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  command.action(act(run));
};

async function run(context: Context): Promise<void> {
  const answer = await (await context.client()).getOrg();
  await context.out.result(answer, () => showOwnOrg(context, answer.data));
}

export function showOwnOrg({ out, now }: Context, org: Body<"getOrg">["data"]): void {
  const days = org.settings.deployment_expires_days;
  out.details([
    ["Id", org.id],
    ["Name", org.name],
    ["Status", out.status(org.status)],
    ["Deployments expire after", days === null ? "server default" : `${days} d`],
    ["Created", relative(org.created_at, now())],
  ]);
}
