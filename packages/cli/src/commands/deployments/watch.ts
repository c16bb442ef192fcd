import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { watchDeployment } from "../../watch.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Follow a deployment until it is applied, failed, rolled back or cancelled. Ctrl-C stops watching; the deployment continues.",
    )
    .argument("<id>", "Id of the deployment")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const client = await context.client();
  const { data } = await client.getDeployment({ params: { id } });
  await watchDeployment(context, client, data);
}
