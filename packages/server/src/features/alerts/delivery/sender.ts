import type { Plane } from "../../../context.ts";
import { background } from "../../../kernel/background.ts";
import { Fault } from "../../../kernel/fault.ts";
import { Networks } from "../../../kernel/networks.ts";
import { announce } from "../../events/index.ts";
import { type Attempt, guardedPost, type PostContext } from "./guarded-post.ts";
import { openChannel } from "./channels.ts";
import { requestOf } from "./message.ts";
import { senderHint } from "./outbox.ts";
import { sendMail } from "./smtp.ts";
import { lockChannel, findSealed, type SealedRow } from "./store.ts";
import { type Claimed, claimChannels, findNext, type NextRow, putResult, releaseChannel, type Result } from "./store-claims.ts";
import { signatureHeaders } from "./webhook-signature.ts";

const LOOK_EVERY_MS = 5_000;
/** Messages that a node sends concurrently. */
const SENDS_MAX = 64;
/** Longer than any attempt. After a crash, another node sends the message again when the lease has expired. */
const LEASE_MS = 60_000;
/** Delay of a channel's other messages after a failure, so that a receiver that is down does not occupy the sender continuously. */
const PAUSE_MS = 10_000;
const RETRY_MS = 5_000;
const RETRY_FACTOR = 3;
const RETRY_MS_MAX = 3_600_000;

/** Returns the delay before the next attempt, after this number of failed ones: 5 s, 15 s, 45 s … 1 h. */
const retryDelayMs = (failed: number): number => Math.min(RETRY_MS_MAX, RETRY_MS * RETRY_FACTOR ** (failed - 1));

/** Computes the result of an attempt: delivered, pending with the time of the next attempt, or given up. */
export function resultOf(
  { id, attempts, give_up_at }: Pick<NextRow, "id" | "attempts" | "give_up_at">,
  { delivered, detail }: Attempt,
  now: Date,
): Result {
  if (delivered) return { id, status: "delivered", detail, next_attempt_at: null };
  const next_attempt_at = new Date(now.getTime() + retryDelayMs(attempts + 1));
  if (next_attempt_at > give_up_at) return { id, status: "failed", detail: `given up: ${detail}`, next_attempt_at: null };
  return { id, status: "pending", detail, next_attempt_at };
}

/** Starts the sender of this node. On several nodes, each channel is served by the node that claims it first. */
export function startSender(plane: Plane): { stop(): Promise<void> } {
  const sending = new Set<Promise<void>>();
  const stopping = new AbortController();
  const context = { allowed: new Networks(plane.settings.alert_networks ?? []), signal: stopping.signal };
  const loop = background(plane, "alert deliveries", LOOK_EVERY_MS, async () => {
    const free = SENDS_MAX - sending.size;
    if (free === 0 || stopping.signal.aborted) return;
    const now = plane.clock.now();
    const leased_until = new Date(now.getTime() + LEASE_MS);
    for (const claimed of await claimChannels(plane.db, { now, leased_until, limit: free })) {
      const done = serve(plane, context, claimed, leased_until)
        .catch((error: unknown) => plane.log.error({ err: error, channel_id: claimed.id }, "an alert could not be sent"))
        .finally(() => {
          sending.delete(done);
          loop.wake();
        });
      sending.add(done);
    }
  });
  senderHint(plane).wake = () => loop.wake();
  return {
    stop: async () => {
      senderHint(plane).wake = () => {};
      stopping.abort();
      await loop.stop();
      await Promise.all(sending);
    },
  };
}

type Sending = Omit<PostContext, "clock"> & { signal: AbortSignal };

/** Sends the next message of a claimed channel, stores the result and ends the lease. */
async function serve(plane: Plane, context: Sending, claimed: Claimed, leased_until: Date): Promise<void> {
  const { org_id, id } = claimed;
  const db = plane.db.forOrg(org_id);
  const channel = await findSealed(db, org_id, id);
  const next = await findNext(db, org_id, id, plane.clock.now());
  const attempt = channel === undefined || next === undefined ? undefined : await send(plane, context, { org_id, channel, next });
  // An interrupted attempt does not count: another node, or this one after its restart, sends the message.
  const is_interrupted = attempt?.delivered === false && context.signal.aborted;
  await db.transaction(async (tx) => {
    const now = plane.clock.now();
    if ((await lockChannel(tx, org_id, id)) === undefined) return;
    if (next !== undefined && attempt !== undefined && !is_interrupted) {
      await putResult(tx, org_id, resultOf(next, attempt, now), now);
      announce(tx, plane, org_id, { kind: "channel", id, change: "status" });
    }
    const pause_ms = attempt?.delivered === false && !is_interrupted ? PAUSE_MS : 0;
    await releaseChannel(tx, claimed, { leased_until, not_before: new Date(now.getTime() + pause_ms) });
  });
}

interface Outgoing {
  org_id: string;
  channel: SealedRow;
  next: NextRow;
}

async function send(plane: Plane, context: Sending, { org_id, channel, next }: Outgoing): Promise<Attempt> {
  const { clock, settings, db_errors } = plane;
  const { kind } = channel;
  try {
    const secrets = await openChannel(plane.db.forOrg(org_id), plane, org_id, channel);
    if (kind === "email") {
      if (settings.smtp === undefined) return { delivered: false, detail: "this server has no mail server" };
      const { signal } = context;
      return await sendMail({ clock, signal, smtp: settings.smtp }, { ...next, recipients: secrets.recipients ?? [] });
    }
    const { url, body } = requestOf(kind, secrets, next);
    const { signing_secret } = secrets;
    const signed = signing_secret === undefined ? {} : signatureHeaders(signing_secret, { id: next.id, at: clock.now(), body });
    return await guardedPost({ ...context, clock }, { url, headers: { "content-type": "application/json", ...signed }, body });
  } catch (error) {
    if (db_errors.isOutage(error)) throw error;
    plane.log.error({ err: error, channel_id: channel.id, org_id }, "an alert could not be sent");
    return { delivered: false, detail: error instanceof Fault ? error.message : "an error of the server" };
  }
}
