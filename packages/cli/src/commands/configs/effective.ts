import { addExamples, type Define } from "../../command.ts";
import { namespaceOption, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options {
  robot: string;
  namespace?: string;
}

export const define: Define = (command, act) => {
  command.description("Show the values that count for a robot, where each comes from, and whether the files on the robot are as deployed.");
  namespaceOption(command, "Only this namespace").requiredOption("--robot <id>", "The robot").action(act<[Options]>(run));
  addExamples(command, ["rf configs effective --robot rob_…"]);
};

async function run(context: Context, { robot, namespace }: Options): Promise<void> {
  const { out } = context;
  const { data } = await (await context.client()).getRobotConfig({ params: { id: robot } });
  const wanted = <T extends { namespace: string }>(items: T[]): T[] =>
    items.filter((item) => namespace === undefined || item.namespace === namespace);
  const shown = { ...data, effective: wanted(data.effective), namespaces: wanted(data.namespaces) };
  await out.result({ data: shown }, async () => {
    if (shown.effective.length === 0) out.note("No value is set for this robot.");
    else
      await out.table(shown.effective, [
        { title: "NAMESPACE", value: (value) => value.namespace },
        { title: "KEY", value: ({ key }) => key },
        { title: "VALUE", value: valueText },
        { title: "FROM", value: whereOf },
        { title: "VERSION", value: ({ version }) => version },
        { title: "ID", value: ({ config_id }) => config_id, wide: true },
      ]);
    for (const { namespace: of, state } of shown.namespaces) out.line(line`File ${of}: ${out.status(state)}${MEANINGS[state]}`);
  });
}

const MEANINGS = {
  in_sync: ", as it was deployed last",
  pending: ", a config deployment is on its way",
  drifted: ", it was changed or removed on the robot; the next config deployment puts it back",
  unknown: ", never deployed",
} as const;
