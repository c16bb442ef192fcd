import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { showKeyUse } from "../../show-key.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Create a key for the new computer of a robot. Whoever enrols with it becomes the robot, with its name, place and releases; the computer before is refused from then on.",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const client = await context.client();
  // Without an idempotency key: the answer to a repeat would not hold the secret any more.
  const answer = await client.replaceRobot({ params: { id } });
  const { out } = context;
  await out.result(answer, () => {
    const { key, trusted, expires_at } = answer.data;
    out.details([
      ["Robot", id],
      ["Key", out.paint("strong", key)],
      ["Uses", 1],
      ["Secrets", trusted ? "the robot keeps getting them" : "after an admin approves the robot"],
      ["Expires", relative(expires_at, context.now())],
    ]);
    showKeyUse(context, client, key);
  });
}
