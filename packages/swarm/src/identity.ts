import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import {
  hostOf,
  httpRequestText,
  type LinkChallenge,
  linkChallengeText,
  REQUEST_NONCE_BYTES,
  robotAuthorization,
} from "@roamfleet/protocol/link";

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

/** The signature of the hello message in response to this challenge. */
export const answerChallenge = (identity: Identity, robot_id: string, challenge: LinkChallenge): string =>
  signatureOf(identity, linkChallengeText(robot_id, challenge));

/**
 * Value of the Authorization header of a robot's GET, valid for one request; `at` is milliseconds by the server's clock, `channel` the TLS
 * channel of the connection.
 */
export function authorizeGet(
  identity: Identity,
  robot_id: string,
  { url, path, at, channel = "" }: { url: string; path: string; at: number; channel?: string },
): string {
  const nonce = randomBytes(REQUEST_NONCE_BYTES).toString("base64url");
  const request = { host: hostOf(url), channel, method: "GET", path, at, nonce };
  return robotAuthorization(robot_id, request, signatureOf(identity, httpRequestText(robot_id, request)));
}
