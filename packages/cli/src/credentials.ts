import { homedir } from "node:os";
import path from "node:path";
import { DEFAULT_BASE_URL, type Environment } from "./config.ts";
import { usage } from "./failure.ts";
import { changeToml, isTable, readToml, textOf, type TomlContent } from "./toml-file.ts";

export interface Access {
  base_url: string;
  token: string | undefined;
  /** Origin that the saved token belongs to, if that token must not be sent to `base_url`; otherwise undefined. */
  token_origin: string | undefined;
  org_id: string | undefined;
  /** Where `base_url` was configured, such as a flag or a file. Used in messages. */
  base_url_source: string;
}

export interface Profile {
  token?: string | undefined;
  base_url?: string | undefined;
  org?: string | undefined;
  /** Fingerprint of the only certificate authority trusted at `base_url`; its certificate is in authorities/. */
  ca_fingerprint?: string | undefined;
  /** `allowed`: the token may be sent to `base_url` unencrypted. */
  insecure_http?: string | undefined;
}

export interface Flags {
  base_url?: string | undefined;
  org?: string | undefined;
  profile?: string | undefined;
}

/** Returns whether a text can be a token: printable ASCII without spaces, because other characters cannot be sent in a header. */
export const isToken = (text: string): boolean => /^[\u0021-\u007e]+$/.test(text);

/** Name of the profile that consists of the values at the top of the file. No profile table can have this name. */
export const DEFAULT_PROFILE = "default";

/** Returns the path of a file in this program's settings directory. */
export const configPath = (environment: Environment, name: string): string =>
  path.join(environment.config_home ?? path.join(homedir(), ".config"), "roamfleet", name);

export const credentialsPath = (environment: Environment): string => configPath(environment, "credentials.toml");

/** Resolves token, address and org, each from the first source that has it: flag, environment, profile, file. */
export async function resolveAccess(flags: Flags, environment: Environment): Promise<Access> {
  const file = credentialsPath(environment);
  const named = flags.profile ?? environment.profile;
  const complete = named === undefined && environment.token !== undefined && (flags.base_url ?? environment.base_url) !== undefined;
  // If flags and environment provide everything, the file is not read, so a broken file does no harm.
  const content = complete ? {} : await readToml(file);
  const top = toProfile(content);
  const name = chosenProfile(flags, environment, content);
  const profile = name === undefined ? {} : findProfile(file, content, name, named === undefined);
  const addresses: [string | undefined, string][] = [
    [flags.base_url, "--base-url"],
    [environment.base_url, "ROAMFLEET_BASE_URL"],
    [profile.base_url, `profile ${name} in ${file}`],
    [top.base_url, file],
  ];
  const [base_url, base_url_source] = addresses.find((one): one is [string, string] => one[0] !== undefined) ?? [
    DEFAULT_BASE_URL,
    "the default",
  ];
  const saved = tokenOf(profile, top);
  const saved_for = profile.base_url ?? top.base_url ?? DEFAULT_BASE_URL;
  const may_send = mayReceiveToken(base_url, saved_for);
  return {
    base_url,
    base_url_source,
    token: environment.token ?? (may_send ? saved : undefined),
    token_origin: saved === undefined || may_send ? undefined : originOf(saved_for),
    org_id: flags.org ?? environment.org ?? profile.org ?? top.org,
  };
}

/**
 * Returns a profile's token. The token at the top of the file belongs to the address there, so a profile inherits the token only if it has
 * the same address.
 */
export const tokenOf = (profile: Profile, top: Profile): string | undefined =>
  profile.token ?? (sharesAddress(profile, top) ? top.token : undefined);

const sharesAddress = (profile: Profile, top: Profile): boolean =>
  profile.base_url === undefined || originOf(profile.base_url) === originOf(top.base_url ?? DEFAULT_BASE_URL);

/**
 * Returns whether a token that was saved for the address `saved_for` may be sent to `base_url`. The origins must be equal, so that a
 * mistyped or hostile address does not receive the token. All loopback addresses count as one origin, because the token does not leave the
 * machine.
 */
const mayReceiveToken = (base_url: string, saved_for: string): boolean =>
  originOf(base_url) === originOf(saved_for) ||
  [base_url, saved_for].map((address) => URL.parse(address)).every((url) => url !== null && isLoopback(url));

/** Returns whether an address is on this machine. */
export const isLoopback = (url: URL): boolean =>
  /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname) || url.hostname.endsWith(".localhost");

/** Returns an address's origin, or the address itself if it is not a valid URL. */
const originOf = (base_url: string): string => URL.parse(base_url)?.origin ?? base_url;

/**
 * Returns the name of the active profile from the flag, the environment or the file's `profile` value; undefined for the top of the file.
 */
function chosenProfile(flags: Flags, environment: Environment, content: TomlContent): string | undefined {
  const name = flags.profile ?? environment.profile ?? textOf(content.profile);
  return name === DEFAULT_PROFILE ? undefined : name;
}

/** Returns the profile and the address that a login stores. The profile may be new; undefined means the top of the file. */
export async function loginTarget(flags: Flags, environment: Environment): Promise<{ profile: string | undefined; base_url: string }> {
  const content = await readToml(credentialsPath(environment));
  const profile = chosenProfile(flags, environment, content);
  const saved = profile === undefined ? undefined : profilesOf(content).get(profile)?.base_url;
  const base_url = flags.base_url ?? environment.base_url ?? saved ?? textOf(content.base_url) ?? DEFAULT_BASE_URL;
  return { profile, base_url };
}

/** Returns the profiles in a file's tables. */
export function profilesOf(content: TomlContent): Map<string, Profile> {
  const tables = isTable(content.profiles) ? Object.entries(content.profiles) : [];
  return new Map(tables.flatMap(([name, table]) => (isTable(table) ? [[name, toProfile(table)] as const] : [])));
}

function findProfile(file: string, content: TomlContent, name: string, in_use: boolean): Profile {
  const profile = profilesOf(content).get(name);
  if (profile !== undefined) return profile;
  const hints = [
    `Create it: rf login --profile ${name}`,
    ...(in_use ? ["Or switch back to the default profile: rf profiles use default"] : []),
  ];
  throw usage(`there is no profile ${name} in ${file}`, ...hints);
}

export const toProfile = (table: TomlContent): Profile => ({
  token: textOf(table.token),
  base_url: textOf(table.base_url),
  org: textOf(table.org),
  ca_fingerprint: textOf(table.ca_fingerprint),
  insecure_http: textOf(table.insecure_http),
});

/** Returns the profiles of a file by precedence: the active one, then the values at the top of the file, then all named profiles. */
export function profilesInOrder(flags: Flags, environment: Environment, content: TomlContent): Profile[] {
  const profiles = profilesOf(content);
  const chosen = profiles.get(chosenProfile(flags, environment, content) ?? "");
  return [...(chosen === undefined ? [] : [chosen]), toProfile(content), ...profiles.values()];
}

/** Saves values at the top of the file or in a profile. */
export async function saveCredentials(file: string, profile: string | undefined, values: Profile): Promise<void> {
  const { editToml } = await import("./toml-edit.ts");
  await changeToml(file, (text) => editToml(text, profile === undefined ? [] : ["profiles", profile], { ...values }));
}
