import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Unblock a robot that is quarantined because several machines use its identity. Turn off the other machines first, or give the robot a new key: rf robots replace <id>",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const client = await context.client();
  const { held_at } = (await client.getRobot({ params: { id } })).data;
  const answer = await client.releaseHold({ params: { id }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => {
    const { name } = answer.data;
    context.out.line(
      held_at === null
        ? line`Robot ${name} was not quarantined: nothing changed.`
        : line`Robot ${name} is unblocked. It reconnects within five minutes.`,
    );
  });
}
