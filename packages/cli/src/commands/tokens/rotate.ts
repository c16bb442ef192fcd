import { type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { duration } from "../../duration.ts";
import { showToken } from "../../scopes.ts";

interface Options {
  overlapSeconds?: number;
}

export const define: Define = (command, act) => {
  command
    .description("Replace a token's secret. The new one is shown only once. Role, scopes and label are kept.")
    .argument("<id>", "Id of the token")
    .option("--overlap-seconds <n>", "How long the old secret stays valid (default: 0)", wholeNumber(0))
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, { overlapSeconds = 0 }: Options): Promise<void> {
  // No idempotency key: the response to a repeat would not contain the secret.
  const answer = await (await context.client()).rotateToken({ params: { id }, body: { overlap_seconds: overlapSeconds } });
  const { out } = context;
  await out.result(answer, () => {
    showToken(context, answer.data, answer.data.token);
    const old = overlapSeconds === 0 ? "is now invalid" : `stays valid for ${duration(overlapSeconds)}`;
    out.line(`\nThe token is not shown again. The old one ${old}.`);
  });
}
