import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  adminOption(
    command
      .description("Approve an org. Its bootstrap token, which has all permissions in the org, is shown only once.")
      .argument("<id>", "Id of the org"),
  ).action(act<[string, AdminOption]>(run));
};

async function run(context: Context, id: string, options: AdminOption): Promise<void> {
  // No idempotency key: the response to a repeat would not contain the token.
  const answer = await asAdmin(context, options, (client) => client.approveOrg({ params: { id } }));
  const { out } = context;
  await out.result(answer, () => {
    out.details([
      ["Org", `${answer.data.name} (${answer.data.id})`],
      ["Status", out.status(answer.data.status)],
      ["Token", out.paint("strong", answer.data.token)],
    ]);
    out.line(line`\nThe token is not shown again. Save it here: rf login --token ${answer.data.token}`);
  });
}
