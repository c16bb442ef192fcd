import { addExamples, type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { showOwnOrg } from "./show.ts";

interface Options {
  name?: string;
  deploymentExpiresDays?: number;
}

export const define: Define = (command, act) => {
  command
    .option("--name <name>", "New name")
    .option(
      "--deployment-expires-days <n>",
      "Cancel robots that have not started after this many days; 0 means the server's default",
      wholeNumber(0),
    )
    .action(act<[Options]>(run));
  addExamples(command, ["rf org set --deployment-expires-days 14"]);
};

async function run(context: Context, { name, deploymentExpiresDays: deployment_expires_days }: Options): Promise<void> {
  if (name === undefined && deployment_expires_days === undefined)
    throw usage("nothing to change: use --name or --deployment-expires-days");
  const settings = deployment_expires_days === undefined ? undefined : { deployment_expires_days };
  const answer = await (await context.client()).updateOrg({ body: { name, settings } });
  await context.out.result(answer, () => showOwnOrg(context, answer.data));
}
