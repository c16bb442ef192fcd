import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  adminOption(command.argument("<id>", "Id of the org")).action(act<[string, AdminOption]>(run));
};

async function run(context: Context, id: string, options: AdminOption): Promise<void> {
  const answer = await asAdmin(context, options, (client) => client.getAnyOrg({ params: { id } }));
  const { out } = context;
  await out.result(answer, () =>
    out.details([
      ["Id", answer.data.id],
      ["Name", answer.data.name],
      ["E-mail", answer.data.email ?? undefined],
      ["Status", out.status(answer.data.status)],
      ["Created", relative(answer.data.created_at, context.now())],
      ["Changed", relative(answer.data.updated_at, context.now())],
    ]),
  );
}
