import { checkBaseUrl } from "@roamfleet/sdk";
import { defineCommand } from "../command.ts";
import { DEFAULT_BASE_URL } from "../config.ts";
import { credentialsPath, DEFAULT_PROFILE, type Profile, profilesOf, saveCredentials, tokenOf, toProfile } from "../credentials.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { line } from "../text.ts";
import { changeToml, readToml, textOf } from "../toml-file.ts";

/** Number of characters shown of a token, from its start. They show its type and distinguish it from other tokens. */
const PREFIX_LENGTH = 12;
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

export const list = defineCommand<[]>(
  "List the profiles in the credentials file; `default` is the file's top level. Only token prefixes are shown.",
  (command) => command,
  async ({ environment, flags, out }) => {
    const content = await readToml(credentialsPath(environment));
    const used = flags.profile ?? environment.profile ?? textOf(content.profile) ?? DEFAULT_PROFILE;
    const top = toProfile(content);
    const describe = ([name, profile]: readonly [string, Profile]) => ({
      name,
      in_use: name === used,
      base_url: profile.base_url ?? top.base_url ?? DEFAULT_BASE_URL,
      org: profile.org ?? top.org ?? null,
      token_prefix: tokenOf(profile, top)?.slice(0, PREFIX_LENGTH) ?? null,
    });
    const items = [[DEFAULT_PROFILE, top] as const, ...profilesOf(content)].map(describe);
    await out.result({ items, next_cursor: null }, () =>
      out.table(items, [
        { title: "IN USE", value: ({ in_use }) => (in_use ? "*" : "") },
        { title: "NAME", value: ({ name }) => name },
        { title: "ADDRESS", value: ({ base_url }) => base_url },
        { title: "TOKEN", value: ({ token_prefix }) => (token_prefix === null ? "–" : `${token_prefix}…`) },
        { title: "ORG", value: ({ org }) => org ?? "–", wide: true },
      ]),
    );
  },
);

export const use = defineCommand<[string]>(
  "Use a profile by default, unless --profile or ROAMFLEET_PROFILE names another profile.",
  (command) => command.argument("<profile>", "Name of the profile; `default` is the top level of the credentials file"),
  async ({ environment, out }, name) => {
    const file = credentialsPath(environment);
    if (name !== DEFAULT_PROFILE) await requireProfile(file, name);
    const { editToml } = await import("../toml-edit.ts");
    await changeToml(file, (text) => editToml(text, [], { profile: name === DEFAULT_PROFILE ? undefined : name }));
    await out.result({ data: { profile: name } }, () => out.line(line`Profile ${name} is in use.`));
    if (environment.profile !== undefined && environment.profile !== name)
      out.note(line`ROAMFLEET_PROFILE is set to ${environment.profile} and takes precedence in this shell.`);
  },
);

export const add = defineCommand<[string]>(
  "Add a profile with the address from --base-url and the org from --org. Missing values are inherited from the file's top level; the token is inherited only if the address is the same.",
  (command) => command.argument("<profile>", "Name of the new profile"),
  async ({ environment, flags: { base_url, org }, out }, name) => {
    if (!NAME.test(name)) throw usage(`"${name}" is not a valid profile name: use up to 64 letters, digits, . _ and -`);
    if (name === DEFAULT_PROFILE) throw usage("the profile `default` is the top level of the credentials file", "`rf login` changes it.");
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
  },
  ["rf profiles add lab --base-url https://lab.example.org", "rf profiles add acme-test --org org_…"],
);

export const remove = defineCommand<[string]>(
  "Remove a profile from the credentials file. Its token stays valid on the service.",
  (command) => command.argument("<profile>", "Name of the profile"),
  async ({ environment, out }, name) => {
    await removeProfile(credentialsPath(environment), name);
    await out.result({ data: { name, removed: true } }, () =>
      out.line(line`Removed profile ${name}. Its token stays valid until it is revoked.`),
    );
  },
);

/** Returns the address in its canonical form. Throws a Failure if it is invalid. */
export function checkedAddress(text: string): string {
  try {
    return checkBaseUrl(text);
  } catch (error) {
    throw usage(error instanceof Error ? error.message : String(error));
  }
}

/** Removes a profile. If it was the profile in use, the values at the top of the file are used from then on. */
export async function removeProfile(file: string, name: string): Promise<void> {
  if (name === DEFAULT_PROFILE)
    throw usage("the profile `default` is the top level of the credentials file", "`rf logout` deletes the whole file.");
  const content = await requireProfile(file, name);
  const { editToml, removeTable } = await import("../toml-edit.ts");
  await changeToml(file, (text) => {
    const without = removeTable(text, ["profiles", name]);
    return textOf(content.profile) === name ? editToml(without, [], { profile: undefined }) : without;
  });
}

async function requireProfile(file: string, name: string): Promise<Record<string, unknown>> {
  const content = await readToml(file);
  if (profilesOf(content).has(name)) return content;
  throw new Failure(EXIT.not_found, `profile ${name} does not exist`, { hints: ["To see the profiles, run `rf profiles list`."] });
}
