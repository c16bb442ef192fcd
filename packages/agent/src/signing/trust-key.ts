import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { keyIdOf, publicKeyOf, type TrustedKey } from "@roamfleet/protocol/signatures";
import { UsageError } from "../config.ts";
import { lockState } from "../disk/lock.ts";
import { makeDirectory } from "../disk/write-atomically.ts";
import { readTrust, writeTrust } from "./pinned-trust.ts";

export interface TrustKeyFlags {
  state: string;
  /** Unsigned releases stay allowed. */
  optional?: boolean;
}

/**
 * Makes the robot trust these public keys (PEM files) and no others, authorized by access to this machine. The agent must not run meanwhile.
 * Statements that the robot has applied stay applied; the next one must be signed by one of these keys.
 */
export function trustKeys(files: readonly string[], { state, optional = false }: TrustKeyFlags, print: (text: string) => void): void {
  const keys = files.map(readKey);
  const state_directory = resolve(state);
  makeDirectory(state_directory);
  const unlock = lockState(state_directory);
  try {
    const serial = readTrust(state_directory)?.serial ?? 0;
    writeTrust(state_directory, { serial, require_signature: !optional, keys });
  } finally {
    unlock();
  }
  const names = keys.map(({ name, public_key }) => `${name} (${keyIdOf(public_key)})`).join(", ");
  print(`this robot trusts releases signed by ${names}${optional ? ", and accepts unsigned ones" : ", and no others"}\n`);
}

function readKey(file: string): TrustedKey {
  const pem = readFileSync(file, "utf8");
  try {
    return { name: basename(file).replace(/(?:\.pem)?(?:\.pub)?$/, ""), public_key: publicKeyOf(createPublicKey(pem)) };
  } catch {
    throw new UsageError(`${file} holds no Ed25519 key in PEM form; \`rf signing-keys new\` makes one`);
  }
}
