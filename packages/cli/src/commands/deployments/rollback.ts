import { isTerminal } from "@roamfleet/protocol";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";
import { watchDeployment } from "../../watch.ts";

interface Options {
  watch?: true;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Roll back a deployment's robots to their previous release. A running deployment reverses; for one that has ended, a new deployment is created.",
    )
    .argument("<id>", "Id of the deployment")
    .option("--watch", "Follow it to its end; it succeeds when no robot runs the release")
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const answer = await client.rollBackDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
  const { data } = answer;
  const is_new = data.id !== id;
  if (options.watch === true) {
    if (!context.structured)
      out.line(is_new ? line`Deployment ${data.id} rolls back ${data.counts.total} robots.` : line`Deployment ${id} is rolling back.`);
    return watchDeployment(context, client, data, is_new ? ["applied"] : ["rolled_back", "cancelled"]);
  }
  await out.result(answer, () => {
    out.line(
      is_new
        ? line`Deployment ${data.id} rolls back ${data.counts.total} robots to their release before ${id}.`
        : line`Deployment ${id} is ${out.status(data.status)}.`,
    );
    if (!isTerminal(data.status)) out.line(line`Follow it: rf deployments watch ${data.id}`);
  });
}
