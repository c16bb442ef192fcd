import { type Define, wholeNumber } from "../../command.ts";
import type { Context } from "../../context.ts";
import { duration } from "../../duration.ts";
import { showToken } from "../../scopes.ts";

interface Options {
  overlapSeconds?: number;
}

export const define: Define = (command, act) => {
  command
    .description("Give a token a new secret, which is shown this once. Role, scopes and label stay.")
    .argument("<id>", "Id of the token")
    .option("--overlap-seconds <n>", "How long the old secret is still taken (default: 0)", wholeNumber(0))
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, { overlapSeconds = 0 }: Options): Promise<void> {
  // Without an idempotency key: the answer to a repeat would not hold the secret any more.
  const answer = await (await context.client()).rotateToken({ params: { id }, body: { overlap_seconds: overlapSeconds } });
  const { out } = context;
  await out.result(answer, () => {
    showToken(context, answer.data, answer.data.token);
    const old = overlapSeconds === 0 ? "is refused from now on" : `is still taken for ${duration(overlapSeconds)}`;
    out.line(`\nThe token is not shown again. The old one ${old}.`);
  });
}
