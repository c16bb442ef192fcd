import { Option } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure } from "../../failure.ts";
import { showFleet } from "./show.ts";

interface Options {
  name?: string;
  follow?: "on" | "off";
}

export const define: Define = (command, act) => {
  command
    .description("Rename a fleet, or set whether robots that join or reconnect late update automatically to its releases and config.")
    .argument("<id>", "Id of the fleet")
    .option("--name <name>", "New name")
    .addOption(new Option("--follow <on|off>", "Update robots automatically to the fleet's releases and config").choices(["on", "off"]))
    .action(act<[string, Options]>(run));
};

async function run(context: Context, id: string, { name, follow }: Options): Promise<void> {
  if (name === undefined && follow === undefined) throw new Failure(EXIT.usage, "nothing to change: use --name or --follow");
  const body = { ...(name === undefined ? {} : { name }), ...(follow === undefined ? {} : { follow: follow === "on" }) };
  const answer = await (await context.client()).updateFleet({ params: { id }, body });
  await context.out.result(answer, () => showFleet(context, answer.data));
}
