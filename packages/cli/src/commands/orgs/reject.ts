import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  adminOption(command.description("Reject and delete a pending org; its name becomes available.").argument("<id>", "Id of the org")).action(
    act<[string, AdminOption]>(run),
  );
};

async function run(context: Context, id: string, options: AdminOption): Promise<void> {
  const answer = await asAdmin(context, options, (client) => client.rejectOrg({ params: { id } }));
  await context.out.result(answer, () => context.out.line(line`Org ${answer.data.name} is rejected and deleted.`));
}
