import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { type RoleOptions, roleOptions, scopesOf, showUser } from "../../scopes.ts";

interface Options extends RoleOptions {
  name?: string;
  wholeOrg?: boolean;
}

export const define: Define = (command, act) => {
  roleOptions(command.argument("<id>", "Id of the user").option("--name <name>", "Another name"), "the user", { mandatory: false })
    .option("--whole-org", "In the whole org, no longer at single sites or fleets")
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf users update usr_… --role operator --fleet fleet_…", "rf users update usr_… --role admin --whole-org"]);
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const { name, role, wholeOrg } = options;
  const given = scopesOf(options);
  if (wholeOrg && given !== undefined) throw usage("--whole-org excludes --site and --fleet");
  const scopes = wholeOrg ? [] : given;
  if (name === undefined && role === undefined && scopes === undefined)
    throw usage("say what changes: --name, --role, --site, --fleet or --whole-org");
  const answer = await (await context.client()).updateUser({ params: { id }, body: { name, role, scopes } });
  await context.out.result(answer, () => showUser(context, answer.data));
}
