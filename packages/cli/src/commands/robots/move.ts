import { changeRobots } from "../../bulk-robots.ts";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";

interface Options {
  fleet: string;
}

export const define: Define = (command, act) => {
  command
    .description("Move robots to another fleet and its site. They update to the fleet's releases and config, unless --follow is off there.")
    .argument("<id...>", "Ids of robots")
    .requiredOption("--fleet <id>", "Target fleet")
    .action(act<[string[], Options]>(run));
  addExamples(command, ["rf robots move rob_… rob_… --fleet fleet_…"]);
};

const run = (context: Context, ids: string[], { fleet }: Options): Promise<void> =>
  changeRobots(context, ids, { fleet_id: fleet }, "Moved");
