import { isSignedBy, keyIdOf, nextTrust, parseSignedText, parseTrustStatement, type Trust } from "@roamfleet/protocol/signatures";
import type { Body } from "@roamfleet/sdk";
import type { Environment } from "./config.ts";
import { configPath } from "./credentials.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { line } from "./text.ts";
import { changeToml, isTable, readToml, textOf } from "./toml-file.ts";

export type SigningKeys = Body<"getSigningKeys">["data"];

export interface Anchors {
  /** Public key of the key that will sign the next statement: base64 of the raw bytes. */
  public_key: string;
  /** Id of a key that the user trusts; needed if the signing key has not signed a statement yet. */
  known?: string | undefined;
}

/**
 * Returns the keys that the org's signed statements prove to be trusted; undefined if the org never had a key. The keys that the server
 * lists prove nothing, and the signer of the next statement vouches for all keys in it. So this function verifies the statements as robots
 * do, starting from the latest one that an anchor signed. Throws a Failure if the statements do not prove the server's list, or if no
 * anchor signed a statement.
 */
export function provenTrust(listed: SigningKeys, anchors: Anchors): Trust | undefined {
  const { org_id, serial, statements } = listed;
  const trust = walk(org_id, statements, anchors);
  if (trust === undefined && serial === 0 && statements.length === 0 && listed.keys.length === 0 && !listed.require_signature)
    return undefined;
  if (trust === undefined || !isSame(listed, trust)) throw unproven(listed, anchors);
  return trust;
}

function walk(org_id: string, statements: SigningKeys["statements"], { public_key, known }: Anchors): Trust | undefined {
  const said = statements.flatMap((value) => {
    const signed = parseSignedText(value);
    const trust = signed && parseTrustStatement(signed.text);
    return signed === undefined || trust?.org_id !== org_id ? [] : [{ signed, trust }];
  });
  // The id of a key is a hash of the key, so no other key can have the id that the user trusts.
  const named = said.flatMap(({ trust }) => trust.keys.map((key) => key.public_key)).filter((key) => keyIdOf(key) === known);
  const believed = [public_key, ...named.slice(0, 1)];
  const start = said.findLastIndex(({ signed }) => believed.some((key) => isSignedBy(signed, key)));
  let trust: Trust | undefined = said[start]?.trust;
  for (const { signed } of trust === undefined ? [] : said.slice(start + 1)) {
    const next = nextTrust(trust, org_id, signed);
    if ("refusal" in next) return undefined;
    trust = next.trust;
  }
  return trust;
}

function isSame(listed: SigningKeys, trust: Trust): boolean {
  const names = (keys: readonly { name: string; public_key: string }[]): string =>
    JSON.stringify(keys.map(({ name, public_key }) => [public_key, name]).toSorted());
  const present = listed.keys.filter(({ revoked_at }) => revoked_at === null);
  return listed.serial === trust.serial && listed.require_signature === trust.require_signature && names(present) === names(trust.keys);
}

function unproven({ keys }: SigningKeys, { public_key, known }: Anchors): Failure {
  const id = known ?? keyIdOf(public_key);
  return new Failure(EXIT.error, `the server's list of keys is not confirmed by changes that key ${id} signed; nothing was signed`, {
    hints: [
      "The server lists these keys:",
      ...keys.map((key) => line`  ${keyIdOf(key.public_key)} ${key.name}${key.revoked_at === null ? "" : ", revoked"}`),
      "If the --sign key is trusted but has never signed a key change, pass the id of a key that has signed one: --known <id>",
    ],
  });
}

const seenPath = (environment: Environment): string => configPath(environment, "signing-keys.toml");

/** Returns the highest serial of an org's key statements that this machine has verified; 0 if none. */
async function seenSerial(environment: Environment, org_id: string): Promise<number> {
  const content = await readToml(seenPath(environment));
  const org = isTable(content.orgs) ? content.orgs[org_id] : undefined;
  return isTable(org) ? Number(textOf(org.serial) ?? 0) : 0;
}

/** Stores the serial of an org's latest verified statement. A lower serial than the stored one is ignored. */
export async function rememberSerial(environment: Environment, org_id: string, serial: number): Promise<void> {
  if (serial <= (await seenSerial(environment, org_id))) return;
  const { editToml } = await import("./toml-edit.ts");
  await changeToml(seenPath(environment), (text) => editToml(text, ["orgs", org_id], { serial: String(serial) }));
}

/**
 * Throws a Failure unless `serial`, the number of the next key statement, is above every serial that this machine has seen. Otherwise the
 * server may be hiding the latest statement: the next statement would then repeat revoked keys, or have a serial that robots have seen and
 * therefore ignore.
 */
export async function requireUnseen(environment: Environment, org_id: string, serial: number): Promise<void> {
  const seen = await seenSerial(environment, org_id);
  if (serial > seen) return;
  throw new Failure(
    EXIT.error,
    `the server's list of keys has serial ${serial - 1}, but this machine has seen serial ${seen}; nothing was signed`,
    {
      hints: [
        "The server hides a key change, or was restored from an old backup.",
        `Robots that have seen serial ${seen} ignore lower serials. The serials that this machine has seen are in ${seenPath(environment)}.`,
      ],
    },
  );
}
