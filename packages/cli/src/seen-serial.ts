import type { Environment } from "./config.ts";
import { configPath } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { changeToml, isTable, readToml, textOf } from "./toml-file.ts";

const seenPath = (environment: Environment): string => configPath(environment, "signing-keys.toml");

/** Returns the highest serial of an org's key statements that this machine has verified; 0 if none. */
async function seenSerial(environment: Environment, org_id: string): Promise<number> {
  const content = await readToml(seenPath(environment));
  const org = isTable(content.orgs) ? content.orgs[org_id] : undefined;
  return isTable(org) ? Number(textOf(org.serial) ?? 0) : 0;
}

/** Stores the serial of the org's verified statements; it never decreases. */
export async function rememberSerial(environment: Environment, org_id: string, serial: number): Promise<void> {
  if (serial <= (await seenSerial(environment, org_id))) return;
  const { editToml } = await import("./toml-edit.ts");
  await changeToml(seenPath(environment), (text) => editToml(text, ["orgs", org_id], { serial: String(serial) }));
}

/**
 * Throws a Failure unless the serial is above every serial seen before. A server that hides the latest statement would make the next one
 * repeat revoked keys, or reuse a number that robots have seen and therefore ignore.
 */
export async function requireUnseen(environment: Environment, org_id: string, serial: number): Promise<void> {
  const seen = await seenSerial(environment, org_id);
  if (serial > seen) return;
  throw new Failure(
    EXIT.error,
    `the server's keys are at serial ${serial - 1}, but this machine has seen serial ${seen}; nothing was signed`,
    {
      hints: [
        "The server hides a key change, or was restored from an old backup.",
        `Robots that have seen ${seen} ignore lower serials. This machine's record is in ${seenPath(environment)}.`,
      ],
    },
  );
}
