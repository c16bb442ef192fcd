import { createPublicKey, hash, verify } from "node:crypto";
import { type Hello, httpRequestText, linkChallengeText, type SignedRequest } from "@roamfleet/protocol/link";
import { isOutage } from "../../engines/db/index.ts";
import type { RobotCaller } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { channelRefusal } from "../../kernel/channel.ts";
import { forbidden, httpError, unauthorized, unauthorizedKnown } from "../../kernel/fault.ts";
import type { HostNames } from "../../kernel/host-names.ts";
import type { RateLimit } from "../../kernel/rate-limit.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { Together } from "../../kernel/together.ts";
import type { Admission, ExpectedChallenge, LinkHandlers } from "../../link/index.ts";
import { reportPositions } from "../deployments/index.ts";
import { deleteUsedNonces, useNonce } from "./store-nonces.ts";
import { findIdentities, findIdentity, type IdentityRow } from "./store.ts";

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
 * any longer: thousands are idle.
 */
export function takeKeyOfHello(hello: Hello): Buffer | undefined {
  const public_key = signed_with.get(hello);
  signed_with.delete(hello);
  return public_key;
}

/** An outbox of a robot, as its hello names it. */
interface Outbox {
  robot_id: string;
  outbox_id: string;
}
/** How far these outboxes of an org's robots have been taken, in their order. */
type Positions = (db: Db, org_id: string, outboxes: readonly Outbox[]) => Promise<number[]>;

type Acked = Pick<Extract<Admission, { admitted: true }>, "acked_seq" | "acked_log_seq">;

const LOOK_UPS_MAX = 1_000;
const AT_ONCE = 2;
/** Of the ten minutes in which a robot has a number of requests. */
const NONCES_RETRY_SECONDS = "60";

/**
 * What lets a robot's link in when it signed the nonce with the key that it enrolled with, and says how far its reports and
 * logs are known. Robots that come at the same time are looked up together. The positions of the logs are handed in: logs are
 * kept by a feature that knows robots, not the reverse.
 */
export function createAdmission(
  { db, rate_limits, hosts }: { db: SystemDb; rate_limits: { unknown: Pick<RateLimit, "tryTake"> }; hosts: Pick<HostNames, "refusal"> },
  logPositions: Positions,
): LinkHandlers["admit"] {
  const options = { items_max: LOOK_UPS_MAX, at_once: AT_ONCE };
  const identities = new Together<string, IdentityRow | undefined>({
    ...options,
    work: async (_, robot_ids) => {
      const rows = new Map((await findIdentities(db, [...new Set(robot_ids)])).map((identity) => [identity.robot_id, identity]));
      return robot_ids.map((id) => rows.get(id));
    },
  });
  const positions = new Together<Outbox, Acked>({
    ...options,
    work: async (org_id, outboxes) => {
      const own = db.forOrg(org_id);
      const [reports, logs] = await Promise.all([reportPositions(own, org_id, outboxes), logPositions(own, org_id, outboxes)]);
      return outboxes.map((_outbox, i) => ({ acked_seq: reports[i] ?? 0, acked_log_seq: logs[i] ?? 0 }));
    },
  });
  return async (hello, expected, ip) => {
    const identity = await identities.ask("", hello.robot_id);
    const refusal = refusalOf(identity, hello, expected, hosts);
    if (identity === undefined || refusal !== undefined) {
      const is_guess = identity === undefined || refusal?.code === "bad_signature";
      const is_too_many = is_guess && !rate_limits.unknown.tryTake(ip, 1);
      return { admitted: false, ...(refusal ?? UNKNOWN), ...(is_too_many ? { retry_after_ms: GUESSED_RETRY_MS } : {}) };
    }
    signed_with.set(hello, Buffer.from(identity.public_key));
    // Not for good: it comes back every half minute or so, and is let in again when the org is.
    if (identity.suspended) return { admitted: false, code: "busy", message: ORG_SUSPENDED };
    const { org_id, robot_id } = identity;
    return { admitted: true, org_id, ...(await positions.ask(org_id, { robot_id, outbox_id: hello.outbox_id })) };
  };
}

type Refusal = Omit<Extract<Admission, { admitted: false }>, "admitted">;
/** Robots that are refused beside a machine that guesses are told why all the same, and stay away for longer than they would. */
const GUESSED_RETRY_MS = 5 * 60_000;
const UNKNOWN: Refusal = { code: "unknown_robot", message: "no such robot; enrol it first" };

/** Of a host in a message. */
const HOST_CHARACTERS_MAX = 100;
const badSignature = (message: string): Refusal => ({ code: "bad_signature", message });

function refusalOf(
  identity: IdentityRow | undefined,
  hello: Hello,
  expected: ExpectedChallenge,
  hosts: Pick<HostNames, "refusal">,
): Refusal | undefined {
  if (identity === undefined) return UNKNOWN;
  const { channel = "" } = hello;
  const text = linkChallengeText(hello.robot_id, { ...expected, channel });
  // A signature for another channel was made for another server, which passed it on; one without a channel fits every connection.
  const wrong_channel = channelRefusal(expected, channel);
  if (wrong_channel !== undefined) return badSignature(wrong_channel);
  if (!isSignedBy(identity.public_key, text, hello.signature))
    return badSignature(
      `the signature is not this robot's, or was made for another host than ${expected.host.slice(0, HOST_CHARACTERS_MAX)}, which the request names`,
    );
  // A server that relays the answer says which host the robot signed for: then the signature is right, and the host is not this server's.
  const wrong_host = hosts.refusal(expected.host);
  if (wrong_host !== undefined) return { code: "wrong_host", message: wrong_host };
  // After the signature: only the robot itself learns that it was removed.
  if (identity.decommissioned) return { code: "decommissioned", message: "this robot was decommissioned" };
  if (identity.held) return { code: "held", message: HELD };
  return undefined;
}

/** Resolves a signed HTTP request of a robot. Throws 403 while it is held or its org is suspended, 429 when it makes too many, 401 otherwise, with one message for every cause: who cannot sign learns nothing. */
export async function authenticateRobot(
  { db, hosts }: { db: SystemDb; hosts: Pick<HostNames, "refusal"> },
  robot_id: string,
  request: SignedRequest,
  signature: string,
): Promise<RobotCaller> {
  const identity = await findIdentity(db, robot_id);
  const text = httpRequestText(robot_id, request);
  if (identity === undefined || identity.decommissioned || !isSignedBy(identity.public_key, text, signature)) {
    throw unauthorized("the robot's signature is not valid");
  }
  const wrong_host = hosts.refusal(request.host);
  // The signature is the robot's own: no guess of its network.
  if (wrong_host !== undefined) throw unauthorizedKnown(wrong_host);
  const use = await useNonce(db, { org_id: identity.org_id, robot_id, nonce: request.nonce });
  if (use === "too_many") throw httpError(429, "the robot makes too many requests", { "retry-after": NONCES_RETRY_SECONDS });
  if (use === "used_before") throw unauthorizedKnown("the robot's signature was used before");
  if (identity.held) throw forbidden(HELD);
  if (identity.suspended) throw forbidden(ORG_SUSPENDED);
  return { org_id: identity.org_id, robot_id, key_fingerprint: fingerprint(identity.public_key) };
}

/** Returns those of the callers that a request would be refused to now: removed, held, suspended, or with a key that the robot no longer has. */
export async function refusedRobots<T extends RobotCaller>({ db }: { db: SystemDb }, robots: readonly T[]): Promise<T[]> {
  const robot_ids = new Set(robots.map(({ robot_id }) => robot_id));
  const admitted = new Map<string, string>();
  for (const { robot_id, public_key, decommissioned, held, suspended } of await findIdentities(db, [...robot_ids]))
    if (!decommissioned && !held && !suspended) admitted.set(robot_id, fingerprint(public_key));
  return robots.filter(({ robot_id, key_fingerprint }) => admitted.get(robot_id) !== key_fingerprint);
}

/** Forgets the nonces of requests whose time is over anyway. */
export const sweepNonces = ({ db }: { db: SystemDb }): Promise<number> =>
  deleteIsolated(isOutage, (limit, offset) => deleteUsedNonces(db, limit, offset));
