import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  adminOption(
    command
      .description("Suspend an org: its tokens are refused, its robots disconnected and its deployments paused until it is resumed.")
      .argument("<id>", "Id of the org"),
  ).action(act<[string, AdminOption]>(run));
};

async function run(context: Context, id: string, options: AdminOption): Promise<void> {
  const answer = await asAdmin(context, options, (client) => client.suspendOrg({ params: { id } }));
  const { out } = context;
  await out.result(answer, () => {
    out.line(line`Org ${answer.data.name} is ${out.status(answer.data.status)}.`);
    out.line(line`Resume it: rf orgs resume ${answer.data.id}`);
  });
}
