import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { httpRequestText, linkChallengeText, ROBOT_SIGNATURE_SCHEME } from "@robofleet/protocol/link";

/** The key of a simulated robot: kept in memory only. */
export interface Identity {
  /** base64 of the 32 raw Ed25519 bytes. */
  readonly public_key: string;
  readonly private_key: KeyObject;
}

export function makeIdentity(): Identity {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return { public_key: publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64"), private_key: privateKey };
}

const signatureOf = ({ private_key }: Identity, text: string): string => sign(null, Buffer.from(text), private_key).toString("base64");

/** The signature of the hello that answers this nonce. */
export const answerChallenge = (identity: Identity, robot_id: string, nonce: string): string =>
  signatureOf(identity, linkChallengeText(robot_id, nonce));

/** Value of the Authorization header of a robot's GET; `at` is milliseconds by the server's clock. */
export const authorizeGet = (identity: Identity, robot_id: string, path: string, at: number): string =>
  `${ROBOT_SIGNATURE_SCHEME} ${robot_id}:${at}:${signatureOf(identity, httpRequestText(robot_id, "GET", path, at))}`;
