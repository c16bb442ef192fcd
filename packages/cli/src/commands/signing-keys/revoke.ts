import { keyIdOf } from "@robofleet/protocol/signatures";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure } from "../../failure.ts";
import { changeSigningKeys, KNOWN_FLAG, KNOWN_HELP, type StatementOptions } from "../../signing-key.ts";
import { showSigningKeys } from "./list.ts";

export const define: Define = (command, act) => {
  command
    .description("Trust a key no more. Robots learn it before they install anything again; releases that only it signed are refused.")
    .argument("<id>", "Id of the key, as `rf signing-keys list` shows it")
    .requiredOption("--sign <key>", "PEM file of a private key that is trusted now: another one, if this one was stolen")
    .option(KNOWN_FLAG, KNOWN_HELP)
    .action(act<[string, StatementOptions]>(run));
  addExamples(command, ["rf signing-keys revoke 3f0c… --sign new.pem", "rf signing-keys revoke 3f0c… --sign new.pem --known 3f0c…"]);
};

async function run(context: Context, id: string, options: StatementOptions): Promise<void> {
  const answer = await changeSigningKeys(context, options, {
    keys: (before) => {
      const rest = before.filter(({ public_key }) => keyIdOf(public_key) !== id);
      if (rest.length < before.length) return rest;
      throw new Failure(EXIT.not_found, `no key that is trusted now has the id ${id}`, { hints: ["`rf signing-keys list` shows them."] });
    },
  });
  await context.out.result(answer, () => showSigningKeys(context, answer.data));
}
