import { readFileSync } from "node:fs";

/** An invalid setting. The message is for the person at the terminal. */
export class SettingsError extends Error {}

/**
 * Returns the value of a variable, or the trimmed content of the file named by `NAME_FILE`. Containers usually get secrets as such files.
 * Throws if the file is missing or empty: without an admin token, for example, the admin routes would be open.
 */
export function readSecret(name: string, env: NodeJS.ProcessEnv): string | undefined {
  const value = env[name] || undefined;
  const file = env[`${name}_FILE`] || undefined;
  if (file === undefined) return value;
  if (value !== undefined) throw new SettingsError(`${name} and ${name}_FILE are both set: set only one of them`);
  const secret = readSecretFile(`${name}_FILE`, file);
  if (secret === "") throw new SettingsError(`${name}_FILE: ${file} is empty`);
  return secret;
}

function readSecretFile(variable: string, file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new SettingsError(`${variable}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown error"})`);
  }
}
