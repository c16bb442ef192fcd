import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Cancel a config deployment: robots that have not applied it keep their current values.")
    .argument("<id>", "Id of the config deployment")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).cancelConfigDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => context.out.line(line`Config deployment ${id} is ${context.out.status(answer.data.status)}.`));
}
