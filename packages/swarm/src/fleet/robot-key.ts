import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import type { RobotKey } from "@roamfleet/agent/parts";

/** An Ed25519 key in PKCS #8 format is this prefix and the 32 bytes of the key. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const RAW_KEY_BYTES = 32;

/**
 * Derives the 32 bytes of a robot's key from the seed and number, so that the next run uses the same robots, and from the enrollment key,
 * so that they cannot be derived without it.
 */
export function deriveRobotKey(enroll_key: string, seed: number, number: number): Buffer {
  return createHmac("sha256", enroll_key).update(`roamfleet swarm\n${seed}\n${number}`).digest();
}

/**
 * Signs with a key of 32 bytes. The key object is created for each signature: thousands of them would take megabytes, and robots sign
 * rarely.
 */
export function robotKey(raw: Buffer): RobotKey {
  const der = createPublicKey(privateKey(raw)).export({ type: "spki", format: "der" });
  return {
    public_key: der.subarray(-RAW_KEY_BYTES).toString("base64"),
    sign: (text) => sign(null, Buffer.from(text), privateKey(raw)).toString("base64"),
  };
}

const privateKey = (raw: Buffer): KeyObject => createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, raw]), format: "der", type: "pkcs8" });
