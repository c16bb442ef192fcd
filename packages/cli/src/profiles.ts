import { DEFAULT_PROFILE, profilesOf } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure, usage } from "./failure.ts";
import { changeToml, readToml, textOf } from "./toml-file.ts";

const NAME = /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$/u;

/** Throws for an invalid profile name. */
export function checkProfileName(name: string): void {
  if (!NAME.test(name)) throw usage(`"${name}" is not a valid profile name: use up to 64 letters, digits, . _ and -`);
  if (name === DEFAULT_PROFILE) throw usage("the profile default is the top of the credentials file", "`rf login` changes it.");
}

/** Selects the profile used by default; `default` is the top of the file. */
export async function useProfile(file: string, name: string): Promise<void> {
  if (name !== DEFAULT_PROFILE) await requireProfile(file, name);
  const { editToml } = await import("./toml-edit.ts");
  await changeToml(file, (text) => editToml(text, [], { profile: name === DEFAULT_PROFILE ? undefined : name }));
}

/** Removes a profile; if it was in use, the top of the file is used. */
export async function removeProfile(file: string, name: string): Promise<void> {
  if (name === DEFAULT_PROFILE)
    throw usage("the profile default is the top of the credentials file", "`rf logout` deletes the whole file.");
  const content = await requireProfile(file, name);
  const { editToml, removeTable } = await import("./toml-edit.ts");
  await changeToml(file, (text) => {
    const without = removeTable(text, ["profiles", name]);
    return textOf(content.profile) === name ? editToml(without, [], { profile: undefined }) : without;
  });
}

async function requireProfile(file: string, name: string): Promise<Record<string, unknown>> {
  const content = await readToml(file);
  if (profilesOf(content).has(name)) return content;
  throw new Failure(EXIT.not_found, `profile ${name} does not exist`, { hints: ["`rf profiles list` lists what exists."] });
}
