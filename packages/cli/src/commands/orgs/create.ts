import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  adminOption(command.description("Create an org, which is pending until it is approved.").argument("<name>", "Name of the org")).action(
    act<[string, AdminOption]>(run),
  );
};

async function run(context: Context, name: string, options: AdminOption): Promise<void> {
  const idempotency_key = context.idempotencyKey();
  const answer = await asAdmin(context, options, (client) => client.createOrg({ body: { name }, idempotency_key }));
  await context.out.result(answer, () => {
    context.out.line(line`Created org ${answer.data.name}: ${answer.data.id}, ${context.out.status(answer.data.status)}`);
    context.out.line(line`Next: rf orgs approve ${answer.data.id}`);
  });
}
