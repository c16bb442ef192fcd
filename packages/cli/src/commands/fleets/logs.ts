import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { logLine } from "../../log-line.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the fleet").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).listFleetLogs({ params: { id } });
  await context.out.result(answer, () => {
    if (answer.items.length === 0) context.out.note("No log records yet.");
    for (const record of answer.items) context.out.line(logLine(context.out, record, { with_robot: true }));
  });
}
