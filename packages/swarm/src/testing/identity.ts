import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import {
  hostOf,
  httpRequestText,
  type LinkChallenge,
  linkChallengeText,
  REQUEST_NONCE_BYTES,
  robotAuthorization,
} from "@roamfleet/protocol/link";
import type { Swarm } from "./swarm.ts";

/** The key of a simulated robot: in memory only. */
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

/** Returns the signature for the hello message that answers a challenge of the server. */
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

export interface EnrollOptions {
  /** The raw enrollment key. */
  key: string;
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
  /** Architecture that the robot reports, as Node.js names it. Default: x64. */
  arch?: string | undefined;
}

export interface Enrolled {
  robot_id: string;
  org_id: string;
  name: string;
}

/** Thrown if the server refused to enroll the robot. */
export class EnrollmentFailed extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Enrolls a robot by POST /agent/enroll. Throws EnrollmentFailed with the server's message. */
export async function enroll(swarm: Swarm, identity: Identity, { key, name, labels, arch = "x64" }: EnrollOptions): Promise<Enrolled> {
  const platform = { os: "Simulated", arch, hostname: name ?? "simulated", kernel: "0" };
  const end = swarm.activity.begin();
  try {
    const response = await swarm.fetch(`${swarm.url}/agent/enroll`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key, public_key: identity.public_key, name, labels, platform }),
    });
    const body = (await response.json()) as { data?: Enrolled; error?: { message: string } };
    if (body.data === undefined) throw new EnrollmentFailed(response.status, body.error?.message ?? `HTTP status ${response.status}`);
    return body.data;
  } finally {
    end();
  }
}
