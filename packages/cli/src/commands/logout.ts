import type { Define } from "../command.ts";
import type { Context } from "../context.ts";
import { credentialsPath, deleteCredentials } from "../credentials.ts";
import { line } from "../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Delete the credentials file, all its profiles included. The token itself stays valid on the service.")
    .action(act(run));
};

async function run(context: Context): Promise<void> {
  const file = credentialsPath(context.environment);
  const deleted = await deleteCredentials(file);
  await context.out.result({ data: { file, deleted } }, () => {
    context.out.line(deleted ? line`Deleted ${file}. The token stays valid until it is revoked.` : "You were not logged in.");
    if (context.environment.token !== undefined) context.out.note("ROBOFLEET_TOKEN is still set and will be used.");
  });
}
