import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Open the next wave now: what is left of the soak time and a closed gate are skipped.")
    .argument("<id>", "Id of the deployment")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).promoteDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
  await out.result(answer, () => out.line(line`Deployment ${id} goes on to its next wave. Follow it: rf deployments watch ${id}`));
}
