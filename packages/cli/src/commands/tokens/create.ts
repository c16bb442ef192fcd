import { addExamples, type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { type RoleOptions, roleOptions, scopesOf, showToken } from "../../scopes.ts";

interface Options extends RoleOptions {
  user?: string;
  expiresInHours?: number;
}

export const define: Define = (command, act) => {
  roleOptions(
    command
      .description("Create a token of the org, or of one of its users. The token is shown only once.")
      .argument("<label>", "What the token is for"),
    "the token",
    { mandatory: true },
  )
    .option("--user <id>", "Create a token of this user (default: of the org)")
    .option("--expires-in-hours <n>", "Lifetime in hours; 0 means no expiry (default: 0)", wholeNumber(0))
    .action(act<[string, Options]>(run));
  addExamples(command, [
    "rf tokens create ci --role operator --expires-in-hours 720",
    "rf tokens create laptop --role viewer --user usr_… --fleet fleet_…",
  ]);
};

async function run(context: Context, label: string, options: Options): Promise<void> {
  const { user, expiresInHours } = options;
  const body = { label, role: options.role!, scopes: scopesOf(options), user_id: user, expires_in_hours: expiresInHours };
  // No idempotency key: the response to a repeat would not contain the secret.
  const answer = await (await context.client()).createToken({ body });
  await context.out.result(answer, () => {
    showToken(context, answer.data, answer.data.token);
    context.out.line("\nThe token is not shown again. Save it on the machine that uses it: rf login");
  });
}
