import { type Hello, httpRequestText, linkChallengeText, type SignedRequest } from "@roamfleet/protocol/link";
import { isOutage } from "../../engines/db/index.ts";
import type { RobotCaller } from "../../kernel/caller.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { channelRefusal } from "../../kernel/networks.ts";
import { forbidden, httpError, unauthorized, unauthorizedKnown } from "../../kernel/fault.ts";
import type { HostNames } from "../../kernel/host-names.ts";
import type { RateLimit } from "../../kernel/rate-limit.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import type { Admission, ExpectedChallenge, LinkHandlers } from "../../link/index.ts";
import { reportPositions } from "../deployments/index.ts";
import { fingerprint, isSignedBy } from "./public-key.ts";
import { deleteUsedNonces, findIdentities, findIdentity, type IdentityRow, useNonce } from "./store.ts";

export const ORG_SUSPENDED = "the org is suspended";

const QUARANTINED = "several machines use this robot's identity; an operator must decide which machine is the robot";

/**
 * A queue on a robot's disk for reports and logs. The robot names its outbox when it connects. Each outbox has its own sequence numbers.
 */
interface Outbox {
  robot_id: string;
  outbox_id: string;
}
/** Returns the last accepted sequence number of each outbox, in the order of `outboxes`. */
type Positions = (db: Db, org_id: string, outboxes: readonly Outbox[]) => Promise<number[]>;

type Acked = Pick<Extract<Admission, { admitted: true }>, "acked_seq" | "acked_log_seq">;

const LOOK_UPS_MAX = 1_000;
const AT_ONCE = 2;
/** Retry delay in seconds for a robot that exceeds NONCES_MAX requests in ten minutes. */
const NONCES_RETRY_SECONDS = "60";

/**
 * Creates the function that decides whether a robot may connect. The robot must have signed the server's nonce with its enrolled key. If it
 * is admitted, the result contains the last reports and logs that the server accepted from it. Looks up robots that connect concurrently in
 * one batch. `logPositions` is a parameter because the logs feature imports this module.
 */
export function createAdmission(
  { db, rate_limits, hosts }: { db: SystemDb; rate_limits: { unknown: Pick<RateLimit, "tryTake"> }; hosts: Pick<HostNames, "refusal"> },
  logPositions: Positions,
): LinkHandlers["admit"] {
  const options = { items_max: LOOK_UPS_MAX, concurrency_max: AT_ONCE };
  const identities = new KeyedBatcher<string, IdentityRow | undefined>({
    ...options,
    work: async (_, robot_ids) => {
      const rows = new Map((await findIdentities(db, [...new Set(robot_ids)])).map((identity) => [identity.robot_id, identity]));
      return robot_ids.map((id) => rows.get(id));
    },
  });
  const positions = new KeyedBatcher<Outbox, Acked>({
    ...options,
    work: async (org_id, outboxes) => {
      const own = db.forOrg(org_id);
      const [reports, logs] = await Promise.all([reportPositions(own, org_id, outboxes), logPositions(own, org_id, outboxes)]);
      return outboxes.map((_outbox, i) => ({ acked_seq: reports[i] ?? 0, acked_log_seq: logs[i] ?? 0 }));
    },
  });
  return async (hello, expected, ip) => {
    const identity = await identities.add("", hello.robot_id);
    const refusal = refusalOf(identity, hello, expected, hosts);
    if (identity === undefined || refusal !== undefined) {
      const is_guess = identity === undefined || refusal?.code === "bad_signature";
      const is_too_many = is_guess && !rate_limits.unknown.tryTake(ip, 1);
      return { admitted: false, ...(refusal ?? UNKNOWN), ...(is_too_many ? { retry_after_ms: GUESSED_RETRY_MS } : {}) };
    }
    // The code `busy` makes the robot retry about every 30 s. So it is admitted soon after the org is resumed.
    if (identity.suspended) return { admitted: false, code: "busy", message: ORG_SUSPENDED };
    const { org_id, robot_id, public_key } = identity;
    return { admitted: true, org_id, public_key, ...(await positions.add(org_id, { robot_id, outbox_id: hello.outbox_id })) };
  };
}

type Refusal = Omit<Extract<Admission, { admitted: false }>, "admitted">;
/**
 * Retry delay of a refused robot if too many requests from its address guessed identities. The response still states why it was refused.
 */
const GUESSED_RETRY_MS = 5 * 60_000;
const UNKNOWN: Refusal = { code: "unknown_robot", message: "no such robot; enroll it first" };

/** Maximum length of a host name in an error message. */
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
  // A signature for another TLS channel was made for another server and forwarded here. A signature without a channel is valid on any
  // connection.
  const wrong_channel = channelRefusal(expected, channel);
  if (wrong_channel !== undefined) return badSignature(wrong_channel);
  if (!isSignedBy(identity.public_key, text, hello.signature))
    return badSignature(
      `the signature was not made by this robot, or was made for a host other than ${expected.host.slice(0, HOST_CHARACTERS_MAX)}, which the request names`,
    );
  // A malicious relay can forward the host name that the robot signed. Then the signature is valid, but the host is not this server's.
  const wrong_host = hosts.refusal(expected.host);
  if (wrong_host !== undefined) return { code: "wrong_host", message: wrong_host };
  // Check this after the signature, so that only the robot itself can find out that it was decommissioned.
  if (identity.decommissioned) return { code: "decommissioned", message: "this robot was decommissioned" };
  if (identity.quarantined) return { code: "held", message: QUARANTINED };
  return undefined;
}

/**
 * Authenticates a robot's signed HTTP request. Throws 401 if the robot is unknown or decommissioned, or the signature is invalid. The
 * message is the same for all three, so that a client without the key cannot distinguish them. If the signature is valid, throws 401 for a
 * wrong host or a reused nonce, 429 for too many requests, and 403 while the robot is quarantined or its org is suspended.
 */
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
  // The signature is valid, so this does not count as a guess.
  if (wrong_host !== undefined) throw unauthorizedKnown(wrong_host);
  const use = await useNonce(db, { org_id: identity.org_id, robot_id, nonce: request.nonce });
  if (use === "too_many") throw httpError(429, "the robot sends too many requests", { "retry-after": NONCES_RETRY_SECONDS });
  if (use === "used_before") throw unauthorizedKnown("the robot's signature was used before");
  if (identity.quarantined) throw forbidden(QUARANTINED);
  if (identity.suspended) throw forbidden(ORG_SUSPENDED);
  return { org_id: identity.org_id, robot_id, key_fingerprint: fingerprint(identity.public_key) };
}

/**
 * Returns those of the callers whose next request would be refused: their robot is decommissioned or quarantined, its key was replaced, or
 * its org is suspended.
 */
export async function refusedRobots<T extends RobotCaller>({ db }: { db: SystemDb }, robots: readonly T[]): Promise<T[]> {
  const robot_ids = new Set(robots.map(({ robot_id }) => robot_id));
  const admitted = new Map<string, string>();
  for (const { robot_id, public_key, decommissioned, quarantined, suspended } of await findIdentities(db, [...robot_ids]))
    if (!decommissioned && !quarantined && !suspended) admitted.set(robot_id, fingerprint(public_key));
  return robots.filter(({ robot_id, key_fingerprint }) => admitted.get(robot_id) !== key_fingerprint);
}

/** Deletes the nonces of requests that are too old to be accepted again. Returns how many it deleted. */
export const sweepNonces = ({ db }: { db: SystemDb }): Promise<number> =>
  deleteIsolated(isOutage, (limit, offset) => deleteUsedNonces(db, limit, offset));
