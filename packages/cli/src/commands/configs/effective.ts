import { addExamples, type Define } from "../../command.ts";
import { namespaceOption, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options {
  robot: string;
  namespace?: string;
}

export const define: Define = (command, act) => {
  command.description(
    "Show a robot's effective values, the scope that each comes from, and whether the files on the robot match the last deployment.",
  );
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
    if (shown.effective.length === 0) out.note("No values apply to this robot.");
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
  in_sync: ", matches the last deployment",
  pending: ", a config deployment is in progress",
  drifted: ", changed or removed on the robot; the next config deployment restores it",
  unknown: ", never deployed",
} as const;
