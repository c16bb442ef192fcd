import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { credentialsPath } from "../../credentials.ts";
import { removeProfile } from "../../profiles.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Remove a profile from the credentials file. Its token stays valid on the service.")
    .argument("<profile>", "Name of the profile")
    .action(act<[string]>(run));
};

async function run(context: Context, name: string): Promise<void> {
  const { environment, out } = context;
  await removeProfile(credentialsPath(environment), name);
  await out.result({ data: { name, removed: true } }, () =>
    out.line(line`Removed profile ${name}. Its token stays valid until it is revoked.`),
  );
}
