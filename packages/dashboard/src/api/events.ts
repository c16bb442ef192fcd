import { useEffect } from "react";
import { setOutage } from "../ui/outage.ts";
import { createStore } from "../ui/store.ts";
import { refetchFailed, refetchQueries, watchAnswers } from "./query-client.ts";
import { type Change, type ChangeSummary, keysOf } from "./stale.ts";

type Watch = (change: Change | ChangeSummary) => void;

/** Changes within this time are coalesced into one refetch. Four refetches per second feel live and cost little. */
const GATHER_MS = 250;
/** Interval between refetches while the stream is not live. */
const POLL_MS = 5_000;
/** Maximum intervals between refetches of failed queries while the stream is live. */
const BACKOFF_POLLS_MAX = 12;
/** Delay before reopening a stream that the server refused. */
const REOPEN_MS = 5_000;
/** The stream has failed if no heartbeat arrives for this long. The server sends one every 3 s. */
const SILENCE_MS = 10_000;
const CHECK_MS = 1_000;
/**
 * A tab that has been hidden for this long closes its stream, because browsers allow only six HTTP/1.1 connections per server for all tabs.
 */
const HIDDEN_MS = 10_000;

/** live: heartbeats arrive. polling: no heartbeats, but the server responds to requests. stale: no heartbeats and no responses. */
export type Liveness = "live" | "connecting" | "polling" | "stale";
const liveness = createStore<Liveness>("connecting");
const watchers = new Set<Watch>();

/** Returns the liveness of the page, for the indicator in the corner. */
export const useLiveness = liveness.use;

/**
 * Calls `watch` for each change, and for each summary of many changes, while the component is mounted. Use it on pages that must do more
 * than refetch. Pass the same function as `watch` on each render.
 */
export function useChanges(watch: Watch): void {
  useEffect(() => {
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, [watch]);
}

/** Keeps all queries up to date until the returned function is called. Call it once per session. */
export function followChanges(): () => void {
  let gathered = new Map<string, readonly unknown[]>();
  let gathering: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    gathering = undefined;
    const keys = gathered;
    gathered = new Map();
    for (const key of keys.values()) refetchQueries(key);
  };
  const stream = new ChangeStream({
    onStale: () => refetchQueries(),
    onChange: (change) => {
      for (const watch of watchers) watch(change);
      for (const key of keysOf(change)) gathered.set(JSON.stringify(key), key);
      gathering ??= setTimeout(flush, GATHER_MS);
    },
  });
  let closing: ReturnType<typeof setTimeout> | undefined;
  const followSight = (): void => {
    clearTimeout(closing);
    if (document.visibilityState === "hidden") closing = setTimeout(() => stream.close(), HIDDEN_MS);
    else stream.open();
  };
  followSight();
  document.addEventListener("visibilitychange", followSight);
  let waited = 0;
  let backoff = 1;
  const poll = setInterval(() => {
    if (document.visibilityState !== "visible") return;
    if (liveness.get() !== "live") return refetchQueries();
    // The server responds, but some queries failed, and no event reports when they would succeed.
    waited += 1;
    if (waited < backoff) return;
    waited = 0;
    backoff = refetchFailed() ? Math.min(2 * backoff, BACKOFF_POLLS_MAX) : 1;
  }, POLL_MS);
  return () => {
    document.removeEventListener("visibilitychange", followSight);
    clearTimeout(closing);
    clearInterval(poll);
    clearTimeout(gathering);
    stream.close();
  };
}

/** The stream of changes. Reconnects after failures, and derives the liveness of the page from missing heartbeats. */
class ChangeStream {
  readonly #onStale: () => void;
  readonly #onChange: Watch;
  #source: EventSource | undefined;
  #reopening: ReturnType<typeof setTimeout> | undefined;
  #checking: ReturnType<typeof setInterval> | undefined;
  #unwatch = (): void => {};
  /** Times of the last event, the last response to any request, and the last connection attempt, by performance.now(). */
  #heard_ms = 0;
  #answered_ms = 0;
  #connected_ms = 0;
  /** Time of the last response, by the browser's clock. */
  #answered_at = 0;

  constructor({ onStale, onChange }: { onStale: () => void; onChange: Watch }) {
    this.#onStale = onStale;
    this.#onChange = onChange;
  }

  open(): void {
    if (this.#source !== undefined) return;
    // The heartbeat timeout starts now. The time of the last response does not change: the data may be from before the tab was hidden.
    this.#heard_ms = this.#answered_ms = performance.now();
    this.#answered_at ||= Date.now();
    this.#unwatch = watchAnswers(() => this.#answer());
    this.#checking = setInterval(() => this.#check(), CHECK_MS);
    this.#connect();
  }

  close(): void {
    this.#source?.close();
    this.#source = undefined;
    clearTimeout(this.#reopening);
    clearInterval(this.#checking);
    this.#unwatch();
    liveness.set("connecting");
    setOutage(undefined);
  }

  #connect(): void {
    clearTimeout(this.#reopening);
    this.#source?.close();
    this.#connected_ms = performance.now();
    const source = new EventSource("/api/events?coalesce=true");
    this.#source = source;
    let is_new = true;
    source.addEventListener("ready", () => {
      this.#hear("live");
      // Refetch after a new stream opens, because loaded data may have changed before. A resumed stream needs no refetch: it receives the
      // missed events.
      if (is_new) this.#onStale();
      is_new = false;
    });
    source.addEventListener("beat", () => this.#hear("live"));
    source.addEventListener("lost", () => {
      this.#hear("live");
      this.#onStale();
    });
    source.addEventListener("changes", ({ data }: MessageEvent<string>) => {
      this.#hear("live");
      const { changes } = JSON.parse(data) as { changes: (Change | ChangeSummary)[] };
      for (const change of changes) this.#onChange(change);
    });
    source.addEventListener("error", () => {
      if (liveness.get() === "live") liveness.set("connecting");
      // The browser reconnects automatically, except after a refusal.
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.#reopening);
      this.#reopening = setTimeout(() => this.#connect(), REOPEN_MS);
      // Browsers do not expose why the server refused the stream. The refetch shows whether the session has ended: it then returns 401.
      this.#onStale();
    });
  }

  #hear(next?: Liveness): void {
    this.#heard_ms = performance.now();
    this.#answer();
    if (next !== undefined) this.#show(next);
  }

  #answer(): void {
    this.#answered_ms = performance.now();
    this.#answered_at = Date.now();
  }

  #check(): void {
    const now = performance.now();
    if (now - this.#heard_ms < SILENCE_MS) return;
    this.#show(now - this.#answered_ms < SILENCE_MS ? "polling" : "stale");
    // Connect again: if the server froze or disappeared without closing the old connection, that connection would stay open forever.
    if (this.#source?.readyState !== EventSource.CLOSED && now - this.#connected_ms >= SILENCE_MS) this.#connect();
  }

  #show(next: Liveness): void {
    liveness.set(next);
    setOutage(next === "stale" ? { since_ms: this.#answered_at } : undefined);
  }
}
