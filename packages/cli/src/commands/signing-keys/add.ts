import path from "node:path";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { changeSigningKeys, KNOWN_FLAG, KNOWN_HELP, readPublicKey, type StatementOptions } from "../../signing-key.ts";
import { showSigningKeys } from "./list.ts";

interface Options extends StatementOptions {
  name?: string;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Trust another key for signing releases. A currently trusted key must sign the change; the first key signs its own addition.",
    )
    .argument("<public-key>", "PEM file of the new key; the private key is not needed")
    .requiredOption("--sign <key>", "PEM file of a currently trusted private key")
    .option(KNOWN_FLAG, KNOWN_HELP)
    .option("--name <name>", "Name of the new key (default: the file name)")
    .option("--start-over", "All keys are lost: trust only this one. Each robot that trusts the lost keys must be reset on its own machine")
    .action(act<[string, Options]>(run));
  addExamples(command, [
    "rf signing-keys add release-key.pem.pub --sign release-key.pem",
    "rf signing-keys add new.pem.pub --sign release-key.pem",
  ]);
};

async function run(context: Context, file: string, options: Options): Promise<void> {
  const public_key = await readPublicKey(file);
  const name = options.name ?? path.basename(file).replace(/(?:\.pem)?(?:\.pub)?$/, "");
  const answer = await changeSigningKeys(context, options, {
    keys: (before) => {
      if (before.some((key) => key.public_key === public_key)) throw usage("this key is already trusted");
      return [...before, { name, public_key }];
    },
  });
  await context.out.result(answer, () => showSigningKeys(context, answer.data));
}
