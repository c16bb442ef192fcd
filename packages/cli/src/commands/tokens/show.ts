import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { showToken } from "../../scopes.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the token").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).getToken({ params: { id } });
  await context.out.result(answer, () => showToken(context, answer.data));
}
