import { createPublicKey, hash, verify } from "node:crypto";
import { linkChallengeText, type Hello } from "@robofleet/protocol/link";
import type { RobotCaller } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { forbidden, unauthorized } from "../../kernel/fault.ts";
import type { Admission } from "../../link/index.ts";
import { reportPosition } from "../deployments/index.ts";
import { findIdentity } from "./store.ts";

/** What stands before the 32 raw bytes in the SPKI form of an Ed25519 key (RFC 8410). */
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const SIGNATURE_BYTES = 64;
export const ORG_SUSPENDED = "the org is suspended";

/** Whether `signature` (base64) over `text` was made with the private key of the 32 raw bytes. */
export function isSignedBy(public_key: Buffer, text: string, signature: string): boolean {
  const bytes = Buffer.from(signature, "base64");
  if (bytes.length !== SIGNATURE_BYTES) return false;
  const key = createPublicKey({ key: Buffer.concat([SPKI_PREFIX, public_key]), format: "der", type: "spki" });
  return verify(null, Buffer.from(text), key, bytes);
}

/** As `ssh-keygen -l` writes it. */
export const fingerprint = (public_key: Buffer): string => `SHA256:${hash("sha256", public_key, "base64").replace(/=+$/, "")}`;

const HELD = "several machines have this robot's identity; an operator must decide";

const signed_with = new WeakMap<Hello, Buffer>();
/**
 * The key that a hello was let in with, once: the robot may have another one by the time its presence is written. Not kept
 * any longer, as its 32 bytes lie in what the database's socket read, which would stay in memory as long as the link.
 */
export function takeKeyOfHello(hello: Hello): Buffer | undefined {
  const public_key = signed_with.get(hello);
  signed_with.delete(hello);
  return public_key;
}

/** How far an outbox of a robot has been taken. */
export type Position = (db: Db, org_id: string, robot_id: string, outbox_id: string) => Promise<number>;

/**
 * Lets a robot's link in when it signed the nonce with the key that it enrolled with, and says how far its reports and
 * logs are known. The position of the logs is handed in: logs are kept by a feature that knows robots, not the reverse.
 */
export async function admit({ db: system }: { db: SystemDb }, hello: Hello, nonce: string, logPosition: Position): Promise<Admission> {
  const identity = await findIdentity(system, hello.robot_id);
  if (identity === undefined) return { admitted: false, code: "unknown_robot", message: "no such robot; enrol it first" };
  if (!isSignedBy(identity.public_key, linkChallengeText(hello.robot_id, nonce), hello.signature)) {
    return { admitted: false, code: "bad_signature", message: "the signature is not this robot's" };
  }
  // After the signature: only the robot itself learns that it was removed.
  if (identity.decommissioned) return { admitted: false, code: "decommissioned", message: "this robot was decommissioned" };
  if (identity.held) return { admitted: false, code: "held", message: HELD };
  signed_with.set(hello, identity.public_key);
  // Not for good: it comes back every half minute or so, and is let in again when the org is.
  if (identity.suspended) return { admitted: false, code: "busy", message: ORG_SUSPENDED };
  const { org_id, robot_id } = identity;
  const db = system.forOrg(org_id);
  const [acked_seq, acked_log_seq] = await Promise.all([
    reportPosition(db, org_id, robot_id, hello.outbox_id),
    logPosition(db, org_id, robot_id, hello.outbox_id),
  ]);
  return { admitted: true, org_id, acked_seq, acked_log_seq };
}

/** Resolves a signed HTTP request of a robot. Throws 403 while it is held or its org is suspended, 401 otherwise, with one message for every cause: who cannot sign learns nothing. */
export async function authenticateRobot({ db }: { db: Db }, robot_id: string, text: string, signature: string): Promise<RobotCaller> {
  const identity = await findIdentity(db, robot_id);
  if (identity === undefined || identity.decommissioned || !isSignedBy(identity.public_key, text, signature)) {
    throw unauthorized("the robot's signature is not valid");
  }
  if (identity.held) throw forbidden(HELD);
  if (identity.suspended) throw forbidden(ORG_SUSPENDED);
  return { org_id: identity.org_id, robot_id };
}
