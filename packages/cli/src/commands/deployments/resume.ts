import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Go on with a paused deployment. Failures so far are accepted: only a further one stops it again.")
    .argument("<id>", "Id of the deployment")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).resumeDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
  await out.result(answer, () => out.line(line`Deployment ${id} goes on. Follow it: rf deployments watch ${id}`));
}
