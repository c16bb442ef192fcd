import { changeRobots } from "../../bulk-robots.ts";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";

export const define: Define = (command, act) => {
  command
    .description("Set or remove labels of robots: KEY=VALUE sets a label, KEY- removes it. Other labels are kept.")
    .argument("<id-or-label...>", "Ids of robots, and the labels to set or remove")
    .action(act<[string[]]>(run));
  addExamples(command, ["rf robots label rob_… zone=a rack=7", "rf robots label rob_… rob_… zone=b spare-"]);
};

async function run(context: Context, words: string[]): Promise<void> {
  const set: Record<string, string> = {};
  const remove: string[] = [];
  const ids: string[] = [];
  for (const word of words) {
    const at = word.indexOf("=");
    if (at > 0) set[word.slice(0, at)] = word.slice(at + 1);
    else if (word.length > 1 && word.endsWith("-")) remove.push(word.slice(0, -1));
    else ids.push(word);
  }
  if (ids.length === 0) throw usage("no robot given", "rf robots label <id…> KEY=VALUE KEY-");
  if (Object.keys(set).length + remove.length === 0) throw usage("no label given", "KEY=VALUE sets a label, KEY- removes it.");
  await changeRobots(context, ids, { labels: { set, remove } }, "Labelled");
}
