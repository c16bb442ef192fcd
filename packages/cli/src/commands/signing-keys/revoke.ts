import { keyIdOf } from "@roamfleet/protocol/signatures";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure } from "../../failure.ts";
import { changeSigningKeys, KNOWN_FLAG, KNOWN_HELP, type StatementOptions } from "../../signing-key.ts";
import { showSigningKeys } from "./list.ts";

export const define: Define = (command, act) => {
  command
    .description("Revoke a key. Robots receive the change before they install anything else; releases signed only by it are refused.")
    .argument("<id>", "Id of the key, as listed by `rf signing-keys list`")
    .requiredOption("--sign <key>", "PEM file of a currently trusted private key; another key, if the revoked one was stolen")
    .option(KNOWN_FLAG, KNOWN_HELP)
    .action(act<[string, StatementOptions]>(run));
  addExamples(command, ["rf signing-keys revoke 3f0c… --sign new.pem", "rf signing-keys revoke 3f0c… --sign new.pem --known 3f0c…"]);
};

async function run(context: Context, id: string, options: StatementOptions): Promise<void> {
  const answer = await changeSigningKeys(context, options, {
    keys: (before) => {
      const rest = before.filter(({ public_key }) => keyIdOf(public_key) !== id);
      if (rest.length < before.length) return rest;
      throw new Failure(EXIT.not_found, `no trusted key has the id ${id}`, { hints: ["`rf signing-keys list` shows them."] });
    },
  });
  await context.out.result(answer, () => showSigningKeys(context, answer.data));
}
