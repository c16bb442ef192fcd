import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { showKeyUse } from "../../show-key.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Create a key for a robot's replacement computer. The computer that enrolls with it becomes the robot, with its name, fleet and releases; the old computer is then refused.",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const client = await context.client();
  // No idempotency key: the response to a repeat would not contain the secret.
  const answer = await client.replaceRobot({ params: { id } });
  const { out } = context;
  await out.result(answer, () => {
    const { key, trusted, expires_at } = answer.data;
    out.details([
      ["Robot", id],
      ["Key", out.paint("strong", key)],
      ["Uses", 1],
      ["Secrets", trusted ? "the robot continues to get them" : "after an admin approves the robot"],
      ["Expires", relative(expires_at, context.now())],
    ]);
    showKeyUse(context, client, key);
  });
}
