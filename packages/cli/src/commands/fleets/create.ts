import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options {
  site: string;
}

export const define: Define = (command, act) => {
  command.argument("<name>", "Name of the fleet").requiredOption("--site <id>", "Site of the fleet").action(act<[string, Options]>(run));
};

async function run(context: Context, name: string, options: Options): Promise<void> {
  const body = { name, site_id: options.site };
  const answer = await (await context.client()).createFleet({ body, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => {
    context.out.line(line`Created fleet ${answer.data.name}: ${answer.data.id}`);
    context.out.line(line`Next: rf keys new --site ${answer.data.site_id} --fleet ${answer.data.id}`);
  });
}
