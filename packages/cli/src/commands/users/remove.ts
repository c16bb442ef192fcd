import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Remove a user from the org. The user's roles, tokens and enrollment keys are revoked, and pending deployments are cancelled. Prints each affected object and its new status.",
    )
    .argument("<id>", "Id of the user")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteUser({ params: { id } });
  const { out } = context;
  await out.result(answer, async () => {
    const { name, email } = answer.data;
    // A server of an earlier version removes the user without the list.
    const holdings = (answer.data as Partial<typeof answer.data>).holdings ?? [];
    out.line(line`${name} (${email}) is no longer in the org.`);
    if (holdings.length === 0) return;
    out.line();
    await out.table(holdings, [
      { title: "OBJECT", value: ({ kind }) => kind.replaceAll("_", " ") },
      { title: "ID", value: ({ id: left }) => left },
      { title: "LABEL", value: ({ label }) => label ?? "" },
      { title: "WAS", value: ({ status }) => status },
      { title: "NOW", value: ({ outcome }) => outcome },
    ]);
  });
}
