import type { Define } from "../command.ts";
import type { Context } from "../context.ts";
import { credentialsPath } from "../credentials.ts";
import { removeProfile } from "../profiles.ts";
import { line } from "../text.ts";
import { deleteFile } from "../toml-file.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Delete the credentials file with all its profiles; with --profile only that profile. The token itself stays valid on the service.",
    )
    .action(act(run));
};

async function run(context: Context): Promise<void> {
  const file = credentialsPath(context.environment);
  const { profile } = context.flags;
  if (profile !== undefined) {
    await removeProfile(file, profile);
    return context.out.result({ data: { file, profile, deleted: true } }, () =>
      context.out.line(line`Deleted profile ${profile} from ${file}. Its token stays valid until it is revoked.`),
    );
  }
  const deleted = await deleteFile(file);
  await context.out.result({ data: { file, deleted } }, () => {
    context.out.line(deleted ? line`Deleted ${file}. The token stays valid until it is revoked.` : "You were not logged in.");
    if (context.environment.token !== undefined) context.out.note("ROAMFLEET_TOKEN is still set and takes effect.");
  });
}
