import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { type RoleOptions, roleOptions, scopesOf, showUser } from "../../scopes.ts";

interface Options extends RoleOptions {
  name?: string;
  wholeOrg?: boolean;
}

export const define: Define = (command, act) => {
  roleOptions(command.argument("<id>", "Id of the user").option("--name <name>", "New name"), "the user", { mandatory: false })
    .option("--whole-org", "Remove the limits to sites and fleets")
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf users update usr_… --role operator --fleet fleet_…", "rf users update usr_… --role admin --whole-org"]);
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const { name, role, wholeOrg } = options;
  const given = scopesOf(options);
  if (wholeOrg && given !== undefined) throw usage("--whole-org cannot be used with --site or --fleet");
  const scopes = wholeOrg ? [] : given;
  if (name === undefined && role === undefined && scopes === undefined)
    throw usage("nothing to change: use --name, --role, --site, --fleet or --whole-org");
  const answer = await (await context.client()).updateUser({ params: { id }, body: { name, role, scopes } });
  await context.out.result(answer, () => showUser(context, answer.data));
}
