import { isTerminal } from "@roamfleet/protocol";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options {
  rollback?: true;
}

export const define: Define = (command, act) => {
  command
    .description("Cancel a deployment: robots that have not started to install stop, robots that are installing finish.")
    .argument("<id>", "Id of the deployment")
    .option("--rollback", "Roll back robots that are installing, once they finish")
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const { out } = context;
  const body = options.rollback === true ? { mode: "rollback" as const } : {};
  const answer = await (await context.client()).cancelDeployment({ params: { id }, body, idempotency_key: context.idempotencyKey() });
  const { status, counts } = answer.data;
  await out.result(answer, () => {
    out.line(line`Deployment ${id} is ${out.status(status)}.`);
    if (!isTerminal(status)) out.line(line`Robots still finishing: ${counts.active}. Follow it: rf deployments watch ${id}`);
  });
}
