import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Approve a robot that enrolled with an untrusted key: it then receives secret config values and registry logins. Verify first that the computer is yours. Needs the role admin in the whole org.",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
  addExamples(command, ["rf robots approve rob_…"]);
};

async function run(context: Context, id: string): Promise<void> {
  const client = await context.client();
  const before = (await client.getRobot({ params: { id } })).data.approval;
  const answer = await client.approveRobot({ params: { id }, idempotency_key: context.idempotencyKey() });
  await context.out.result(answer, () => {
    const { name } = answer.data;
    context.out.line(before === "approved" ? line`Robot ${name} was already approved.` : line`Robot ${name} is approved.`);
  });
}
