import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { credentialsPath } from "../../credentials.ts";
import { useProfile } from "../../profiles.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Use a profile by default, unless --profile or ROAMFLEET_PROFILE names another.")
    .argument("<profile>", "Name of the profile; default is the top of the credentials file")
    .action(act<[string]>(run));
};

async function run(context: Context, name: string): Promise<void> {
  const { environment, out } = context;
  await useProfile(credentialsPath(environment), name);
  await out.result({ data: { profile: name } }, () => out.line(line`Profile ${name} is in use.`));
  if (environment.profile !== undefined && environment.profile !== name)
    out.note(line`ROAMFLEET_PROFILE is set to ${environment.profile} and takes precedence in this shell.`);
}
