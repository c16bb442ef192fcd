import { checkBaseUrl } from "@roamfleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { credentialsPath, profilesOf, saveCredentials } from "../../credentials.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure, usage } from "../../failure.ts";
import { checkProfileName } from "../../profiles.ts";
import { line } from "../../text.ts";
import { readToml } from "../../toml-file.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Add a profile with the address of --base-url and the org of --org. Missing values are inherited from the top of the file, the token only for the same address.",
    )
    .argument("<profile>", "Name of the new profile")
    .action(act<[string]>(run));
  addExamples(command, ["rf profiles add lab --base-url https://lab.example.org", "rf profiles add acme-test --org org_…"]);
};

async function run(context: Context, name: string): Promise<void> {
  const { environment, flags, out } = context;
  checkProfileName(name);
  const { base_url, org } = flags;
  if (base_url === undefined && org === undefined) throw usage("the profile is empty: use --base-url <url>, --org <id> or both");
  const file = credentialsPath(environment);
  if (profilesOf(await readToml(file)).has(name)) {
    const hints = [`Change its token and address: rf login --profile ${name}`];
    throw new Failure(EXIT.conflict, `profile ${name} already exists`, { hints });
  }
  const address = base_url === undefined ? undefined : checkedAddress(base_url);
  await saveCredentials(file, name, { base_url: address, org });
  await out.result({ data: { name, base_url: address ?? null, org: org ?? null } }, () => {
    out.line(line`Added profile ${name} to ${file}.`);
    out.line(line`Next: rf login --profile ${name}`);
  });
}

function checkedAddress(text: string): string {
  try {
    return checkBaseUrl(text);
  } catch (error) {
    throw usage(error instanceof Error ? error.message : String(error));
  }
}
