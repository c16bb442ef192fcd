import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Take a user out of the org. Roles end, and so do tokens that the user has for it.")
    .argument("<id>", "Id of the user")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteUser({ params: { id } });
  await context.out.result(answer, () => context.out.line(line`${answer.data.name} (${answer.data.email}) is no longer in the org.`));
}
