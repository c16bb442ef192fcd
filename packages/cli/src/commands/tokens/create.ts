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
      .description("Make a token of the org, or of one of its users. The token itself is shown this once.")
      .argument("<label>", "What the token is for"),
    "the token",
    { mandatory: true },
  )
    .option("--user <id>", "Make it a token of this user (default: of the org)")
    .option("--expires-in-hours <n>", "How long it works; 0 is for ever (default: 0)", wholeNumber(0))
    .action(act<[string, Options]>(run));
  addExamples(command, [
    "rf tokens create ci --role operator --expires-in-hours 720",
    "rf tokens create laptop --role viewer --user usr_… --fleet fleet_…",
  ]);
};

async function run(context: Context, label: string, options: Options): Promise<void> {
  const { user, expiresInHours } = options;
  const body = { label, role: options.role!, scopes: scopesOf(options), user_id: user, expires_in_hours: expiresInHours };
  // Without an idempotency key: the answer to a repeat would not hold the secret any more.
  const answer = await (await context.client()).createToken({ body });
  await context.out.result(answer, () => {
    showToken(context, answer.data, answer.data.token);
    context.out.line("\nThe token is not shown again. Save it there: rf login");
  });
}
