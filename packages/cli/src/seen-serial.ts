import type { Environment } from "./config.ts";
import { configPath } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { changeToml, isTable, readToml, textOf } from "./toml-file.ts";

const seenPath = (environment: Environment): string => configPath(environment, "signing-keys.toml");

/** The highest serial of an org's statements of signing keys that this machine has proof of; 0 when there was none. */
async function seenSerial(environment: Environment, org_id: string): Promise<number> {
  const content = await readToml(seenPath(environment));
  const org = isTable(content.orgs) ? content.orgs[org_id] : undefined;
  return isTable(org) ? Number(textOf(org.serial) ?? 0) : 0;
}

/** Keeps that the org's statements have come to this serial: it only rises. */
export async function rememberSerial(environment: Environment, org_id: string, serial: number): Promise<void> {
  if (serial <= (await seenSerial(environment, org_id))) return;
  const { editToml } = await import("./toml-edit.ts");
  await changeToml(seenPath(environment), (text) => editToml(text, ["orgs", org_id], { serial: String(serial) }));
}

/**
 * Throws a Failure when this is not above every serial that was seen: a server that hides what was said last would have the
 * next statement repeat keys that were revoked, or take a number that robots have heard before and do not listen to.
 */
export async function requireUnseen(environment: Environment, org_id: string, serial: number): Promise<void> {
  const seen = await seenSerial(environment, org_id);
  if (serial > seen) return;
  throw new Failure(EXIT.error, `the server says that the keys are at ${serial - 1}, but they were at ${seen} before: nothing was signed`, {
    hints: [
      "It hides a change of the keys, or is a restored copy that has lost one.",
      `Robots that heard of ${seen} take nothing below it. What this machine has seen stands in ${seenPath(environment)}.`,
    ],
  });
}
