import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Revoke a token. Its sessions end within two seconds, including open streams.")
    .argument("<id>", "Id of the token")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).revokeToken({ params: { id }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => context.out.line(line`Token ${answer.data.id} (${answer.data.prefix}…) is revoked.`));
}
