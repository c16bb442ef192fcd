import { Argument } from "commander";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { changeSigningKeys, KNOWN_FLAG, KNOWN_HELP, type StatementOptions } from "../../signing-key.ts";
import { showSigningKeys } from "./list.ts";

export const define: Define = (command, act) => {
  command
    .description("Require signed releases, or turn the requirement off. A currently trusted key must sign either change.")
    .addArgument(new Argument("<on|off>", "Whether a signature is required").choices(["on", "off"]))
    .requiredOption("--sign <key>", "PEM file of a currently trusted private key")
    .option(KNOWN_FLAG, KNOWN_HELP)
    .action(act<[string, StatementOptions]>(run));
  addExamples(command, ["rf signing-keys require on --sign release-key.pem"]);
};

async function run(context: Context, on: string, options: StatementOptions): Promise<void> {
  const change = { require_signature: on === "on" };
  const answer = await changeSigningKeys(context, options, change);
  await context.out.result(answer, () => showSigningKeys(context, answer.data));
}
