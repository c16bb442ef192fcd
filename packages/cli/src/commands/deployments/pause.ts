import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Pause a deployment: robots that have it finish, nobody else gets it.")
    .argument("<id>", "Id of the deployment")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).pauseDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
  await out.result(answer, () => out.line(line`Deployment ${id} is paused. Go on with it: rf deployments resume ${id}`));
}
