import { routes } from "@roamfleet/protocol/routes";
import type { Timer } from "@roamfleet/clock";
import type { Plane } from "../../context.ts";
import { authenticateAgain, proofOf } from "../../kernel/authenticate.ts";
import { hashProof, requireRole } from "../../kernel/caller.ts";
import { Fault, httpError, unauthorized } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { Coalescer } from "./coalesce.ts";
import { Feed } from "./feed.ts";
import { Reader, RETRY_MS } from "./reader.ts";

/** Interval of the token checks. Authentication is also cached for 1 s, so a revoked token is detected within 1.5 s. */
const CHECK_EVERY_MS = 500;
/** Interval of heartbeats. The dashboard treats a stream as broken after 10 s of silence, so two heartbeats may be lost. */
const BEAT_EVERY_MS = 3_000;
const FORGET_EVERY_MS = 15_000;
/** How long the changes of an org are kept after its last reader left, for readers that reconnect. */
const FEED_KEPT_MS = 120_000;
/** A client that does not read the final event within this time is disconnected. */
const END_TIMEOUT_MS = 250;

const STOPPING = "the server is stopping";
const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
  // Stops nginx and similar proxies from buffering events.
  "x-accel-buffering": "no",
};

export interface EventStreams {
  routes(http: Http): void;
  /** Ends every stream, so that its client reconnects to another server. Refuses new streams. */
  drain(): Promise<void>;
}

/** Serves the event streams. Checks authorization and limits, sends heartbeats, and ends streams. */
export function createEventStreams(plane: Plane): EventStreams {
  const feeds = new Map<string, Feed>();
  let draining = false;
  const timers = watch(plane, feeds);

  const feedOf = (org_id: string): Feed => {
    let feed = feeds.get(org_id);
    if (feed === undefined) feeds.set(org_id, (feed = new Feed(plane, org_id)));
    return feed;
  };

  return {
    routes(http) {
      serve(http, plane, routes.streamEvents, async (_, { caller, headers, query, site }) => {
        if (draining) throw httpError(503, STOPPING, { "retry-after": "5" });
        const proof = proofOf({ headers, site });
        if (proof === undefined) throw unauthorized("a token is needed: Authorization: Bearer <token>");
        const feed = feedOf(caller.org_id);
        requireRoom(plane, feed, caller.token_id);
        const coalescer = query.coalesce === true ? new Coalescer(plane.clock) : undefined;
        const reader = new Reader(feed.ring, { caller, held: hashProof(proof), coalescer });
        const last = headers["last-event-id"];
        try {
          await feed.join(reader, typeof last === "string" && last !== "" ? last : undefined);
        } catch (error) {
          reader.destroy();
          throw error;
        }
        return new Answer<never>(200, reader, HEADERS);
      });
    },
    async drain() {
      draining = true;
      for (const timer of timers) timer.cancel();
      const readers = [...feeds.values()].flatMap((feed) => [...feed.readers]);
      const closed = readers.map((reader) => new Promise<void>((resolve) => reader.once("close", () => resolve())));
      for (const reader of readers) end(plane, reader, "draining", STOPPING);
      await Promise.all(closed);
      for (const feed of feeds.values()) feed.close();
      feeds.clear();
    },
  };
}

/** Throws 429 when the token or its org has reached its limit of streams. */
function requireRoom({ settings: { limits } }: Pick<Plane, "settings">, { readers }: Feed, token_id: string): void {
  const refuse = (whose: string): never => {
    throw httpError(429, `too many event streams are open ${whose}; close one of them`, {
      "retry-after": String(RETRY_MS / 1_000),
    });
  };
  const own = Array.from(readers).filter(({ caller }) => caller.token_id === token_id);
  if (own.length >= limits.event_streams_per_token_max) refuse("with this token");
  if (readers.size >= limits.event_streams_per_org_max) refuse("in this org");
}

function end(plane: Pick<Plane, "clock">, reader: Reader, code: string, message: string): void {
  reader.finish(code, message);
  if (reader.destroyed) return;
  const cut = plane.clock.setTimer(END_TIMEOUT_MS, () => reader.destroy());
  reader.once("close", () => cut.cancel());
}

function watch(plane: Plane, feeds: Map<string, Feed>): Timer[] {
  const unsubscribe = plane.bus.onGap(() => {
    for (const feed of feeds.values()) feed.lose();
  });
  const beaten_at = new WeakMap<Reader, number>();
  return [
    plane.clock.every(CHECK_EVERY_MS, () => checkReaders(plane, feeds, beaten_at)),
    plane.clock.every(FORGET_EVERY_MS, () => {
      const now = plane.clock.monotonic();
      for (const [org_id, feed] of feeds) {
        if (feed.idle_since === undefined || now - feed.idle_since < FEED_KEPT_MS) continue;
        feed.close();
        feeds.delete(org_id);
      }
    }),
    { cancel: unsubscribe },
  ];
}

/** Authenticates each token once, however many streams it has. Updates the permissions of these streams, or ends them. */
async function checkReaders(plane: Plane, feeds: ReadonlyMap<string, Feed>, beaten_at: WeakMap<Reader, number>): Promise<void> {
  await Promise.all(
    Array.from(feeds, async ([org_id, { readers }]) => {
      const by_proof = Map.groupBy(readers, ({ held }) => `${held.by} ${held.hash.toString("latin1")}`);
      await Promise.all(
        Array.from(by_proof.values(), async (same) => {
          if (await checkProof(plane, org_id, same)) beat(plane, same, beaten_at);
        }),
      );
    }),
  );
}

/** Sends heartbeats. Call it only after a successful check: a heartbeat means that the server and its database respond. */
function beat({ clock }: Plane, readers: readonly Reader[], beaten_at: WeakMap<Reader, number>): void {
  const now = clock.monotonic();
  for (const reader of readers) {
    if (now - (beaten_at.get(reader) ?? Number.NEGATIVE_INFINITY) < BEAT_EVERY_MS) continue;
    beaten_at.set(reader, now);
    reader.beat();
  }
}

/**
 * Returns whether the token of these readers is still valid, and ends their streams if it is not. While the database does not answer,
 * returns false but keeps the streams.
 */
async function checkProof(plane: Plane, org_id: string, readers: readonly Reader[]): Promise<boolean> {
  const [first] = readers;
  if (first === undefined) return false;
  try {
    const caller = await authenticateAgain(plane, first.held, org_id);
    requireRole(caller, routes.streamEvents.access);
    for (const reader of readers) reader.becomes(caller);
    return true;
  } catch (error) {
    // A database outage does not mean that the token is invalid, so the stream continues.

    if (!(error instanceof Fault) || (error.code !== "unauthorized" && error.code !== "forbidden")) return false;
    for (const reader of readers) end(plane, reader, error.code, error.message);
    return false;
  }
}
