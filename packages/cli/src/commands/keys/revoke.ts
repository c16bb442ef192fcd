import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Revoke an enrollment key. Robots enrolled with it stay.")
    .argument("<id>", "Id of the key")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).revokeEnrollmentKey({ params: { id }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => {
    context.out.line(line`Key ${answer.data.id} is revoked. Robots enrolled with it (${answer.data.uses}) stay.`);
  });
}
