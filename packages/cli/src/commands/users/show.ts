import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { showUser } from "../../scopes.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the user").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).getUser({ params: { id } });
  await context.out.result(answer, () => showUser(context, answer.data));
}
