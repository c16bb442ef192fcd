import { mkdir, open, readFile, realpath, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import process from "node:process";
import { DEFAULT_BASE_URL, type Environment } from "./config.ts";
import { Failure, usage } from "./failure.ts";
import { EXIT } from "./exit-codes.ts";

export interface Access {
  base_url: string;
  token: string | undefined;
  org_id: string | undefined;
  /** Where the address came from, in words. */
  base_url_source: string;
}

interface Profile {
  token?: string | undefined;
  base_url?: string | undefined;
  org?: string | undefined;
}

export interface Flags {
  base_url?: string | undefined;
  org?: string | undefined;
  profile?: string | undefined;
}

export function credentialsPath(environment: Environment): string {
  return path.join(environment.config_home ?? path.join(homedir(), ".config"), "robofleet", "credentials.toml");
}

/** Token, address and org, each from the first that has it: flag, environment, profile, file. */
export async function resolveAccess(flags: Flags, environment: Environment): Promise<Access> {
  const file = credentialsPath(environment);
  const name = flags.profile ?? environment.profile;
  const complete = name === undefined && environment.token !== undefined && (flags.base_url ?? environment.base_url) !== undefined;
  // With all of it at hand the file is not needed, and a broken one does no harm.
  const { top, profile } = complete ? { top: {}, profile: {} } : await readProfiles(file, name);
  const addresses: [string | undefined, string][] = [
    [flags.base_url, "--base-url"],
    [environment.base_url, "ROBOFLEET_BASE_URL"],
    [profile.base_url, `profile ${name} in ${file}`],
    [top.base_url, file],
  ];
  const [base_url, base_url_source] = addresses.find((one): one is [string, string] => one[0] !== undefined) ?? [
    DEFAULT_BASE_URL,
    "the default",
  ];
  return {
    base_url,
    base_url_source,
    token: environment.token ?? profile.token ?? top.token,
    org_id: flags.org ?? environment.org ?? profile.org ?? top.org,
  };
}

/** The address to log in at. A profile that does not exist yet is one that the login makes. */
export async function loginAddress(flags: Flags, environment: Environment): Promise<string> {
  const given = flags.base_url ?? environment.base_url;
  if (given !== undefined) return given;
  const name = flags.profile ?? environment.profile;
  const table = await parseFile(credentialsPath(environment), (await readText(credentialsPath(environment))) ?? "");
  const profile = name !== undefined && isTable(table.profiles) ? table.profiles[name] : undefined;
  return (isTable(profile) ? text(profile.base_url) : undefined) ?? text(table.base_url) ?? DEFAULT_BASE_URL;
}

async function readProfiles(file: string, name: string | undefined): Promise<{ top: Profile; profile: Profile }> {
  const text = await readText(file);
  const top = await parseFile(file, text ?? "");
  if (name === undefined) return { top: toProfile(top), profile: {} };
  const profiles = top.profiles;
  const profile = isTable(profiles) && Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (!isTable(profile)) throw usage(`there is no profile ${name} in ${file}`, `Make it: rf login --profile ${name}`);
  return { top: toProfile(top), profile: toProfile(profile) };
}

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string | undefined => (typeof value === "string" && value !== "" ? value : undefined);
const toProfile = (table: Record<string, unknown>): Profile => ({
  token: text(table.token),
  base_url: text(table.base_url),
  org: text(table.org),
});

async function parseFile(file: string, content: string): Promise<Record<string, unknown>> {
  const { parse, TomlError } = await import("smol-toml");
  try {
    return parse(content);
  } catch (error) {
    // The message of a TOML error quotes the line, and the line may hold the token.
    const place = error instanceof TomlError ? ` (line ${error.line})` : "";
    throw new Failure(EXIT.error, `${file} is no valid TOML${place}`, { hints: ["Mend it by hand, or remove it and run `rf login`."] });
  }
}

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Saves the values at the top of the file or in a profile, readable by this user only, all or nothing. */
export async function saveCredentials(
  file: string,
  profile: string | undefined,
  values: { token?: string | undefined; base_url?: string | undefined },
): Promise<void> {
  const old = (await readText(file)) ?? "";
  await parseFile(file, old);
  const { editToml } = await import("./toml-edit.ts");
  let edited: string;
  try {
    edited = editToml(old, profile === undefined ? [] : ["profiles", profile], { ...values });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Failure(EXIT.error, `${file} was not changed: ${reason}`, {
      hints: ["Edit it by hand: it takes `token` and `base_url`."],
      cause: error,
    });
  }
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  // A file that is a link, as dotfile collections make them, stays one.
  const target = await realpath(file).catch(() => file);
  await replaceFile(target, edited);
}

async function replaceFile(file: string, content: string): Promise<void> {
  const draft = `${file}.${process.pid}.tmp`;
  await rm(draft, { force: true });
  try {
    const handle = await open(draft, "wx", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Deletes the file; that there is none is fine. Answers whether there was one. */
export async function deleteCredentials(file: string): Promise<boolean> {
  try {
    await rm(file);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw error;
  }
}
