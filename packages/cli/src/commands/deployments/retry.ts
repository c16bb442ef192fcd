import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";
import { watchDeployment } from "../../watch.ts";

interface Options {
  watch?: true;
}

export const define: Define = (command, act) => {
  command
    .description("Create a deployment to the robots on which an ended deployment failed or was rolled back.")
    .argument("<id>", "Id of the deployment that has ended")
    .option("--watch", "Follow the new deployment to its end")
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const answer = await client.retryDeployment({ params: { id }, body: {}, idempotency_key: context.idempotencyKey() });
  const { data } = answer;
  const text = line`Deployment ${data.id} retries ${data.release.tag} on ${data.counts.total} robots.`;
  if (options.watch === true) {
    if (!context.structured) out.line(text);
    return watchDeployment(context, client, data);
  }
  await out.result(answer, () => {
    out.line(text);
    out.line(line`Follow it: rf deployments watch ${data.id}`);
  });
}
