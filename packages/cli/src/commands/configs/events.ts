import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the config deployment").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).listConfigDeploymentEvents({ params: { id } });
  await out.result(answer, () =>
    out.table(answer.items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "REASON", value: ({ reason }) => reason ?? "" },
      { title: "WHAT", value: ({ message }) => message },
    ]),
  );
}
