import { createHmac, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import type { RobotKey } from "@robofleet/agent/parts";

/** An Ed25519 key in PKCS #8 form is these bytes and the 32 of the key. */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const RAW_KEY_BYTES = 32;

/**
 * The 32 bytes of a robot's key. They follow from seed and number, so that the next run with them is the same robots, and from
 * the enrolment key: who does not have that cannot make them.
 */
export function deriveRobotKey(enroll_key: string, seed: number, number: number): Buffer {
  return createHmac("sha256", enroll_key).update(`robofleet swarm\n${seed}\n${number}`).digest();
}

/** The key of 32 bytes. Made anew for each signature: thousands of keys ready for use are megabytes, and they sign seldom. */
export function robotKey(raw: Buffer): RobotKey {
  const der = createPublicKey(privateKey(raw)).export({ type: "spki", format: "der" });
  return {
    public_key: der.subarray(-RAW_KEY_BYTES).toString("base64"),
    sign: (text) => sign(null, Buffer.from(text), privateKey(raw)).toString("base64"),
  };
}

const privateKey = (raw: Buffer): KeyObject => createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, raw]), format: "der", type: "pkcs8" });
