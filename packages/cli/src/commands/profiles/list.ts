import type { Define } from "../../command.ts";
import { DEFAULT_BASE_URL } from "../../config.ts";
import type { Context } from "../../context.ts";
import { credentialsPath, DEFAULT_PROFILE, type Profile, profilesOf, tokenOf, toProfile } from "../../credentials.ts";
import { readToml, textOf } from "../../toml-file.ts";

/** Length of the token prefix shown: its type, and enough to distinguish tokens. */
const PREFIX_LENGTH = 12;

export const define: Define = (command, act) => {
  command
    .description("List the profiles in the credentials file; `default` is the top of the file. Only token prefixes are shown.")
    .action(act(run));
};

async function run(context: Context): Promise<void> {
  const { environment, flags, out } = context;
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
}
