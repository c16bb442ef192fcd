import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command.argument("<name>", "Name of the site").action(act<[string]>(run));
};

async function run(context: Context, name: string): Promise<void> {
  const answer = await (await context.client()).createSite({ body: { name }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => {
    context.out.line(line`Created site ${answer.data.name}: ${answer.data.id}`);
    context.out.line(line`Next: rf fleets create <name> --site ${answer.data.id}`);
  });
}
