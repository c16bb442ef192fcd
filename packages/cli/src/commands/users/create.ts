import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { type RoleOptions, roleOptions, scopesOf } from "../../scopes.ts";
import { line } from "../../text.ts";

interface Options extends RoleOptions {
  name: string;
}

export const define: Define = (command, act) => {
  roleOptions(
    command
      .description("Add a user to the org, or add a role to an existing user. Create a token for the user separately.")
      .argument("<email>", "E-mail address")
      .requiredOption("--name <name>", "Name of the person"),
    "the person",
    { mandatory: true },
  ).action(act<[string, Options]>(run));
  addExamples(command, ["rf users create ada@example.org --name 'Ada Lovelace' --role operator --site site_…"]);
};

async function run(context: Context, email: string, options: Options): Promise<void> {
  const body = { email, name: options.name, role: options.role!, scopes: scopesOf(options) };
  const answer = await (await context.client()).createUser({ body, idempotency_key: context.idempotencyKey() });
  const { data } = answer;
  await context.out.result(answer, () => {
    context.out.line(line`User ${data.name} (${data.email}) is ${data.role}: ${data.id}`);
    context.out.line(line`Next: rf tokens create <label> --user ${data.id} --role ${data.role}`);
  });
}
