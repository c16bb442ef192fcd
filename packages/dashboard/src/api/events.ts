import { useEffect, useSyncExternalStore } from "react";
import { readAgain } from "./read-again.ts";
import { type Change, keysOf } from "./stale.ts";

export type { Change } from "./stale.ts";

/** Several changes within this time are one reading of the server. Four a second feel live and cost little. */
const GATHER_MS = 250;
/** Read anew this often while no events come. */
const POLL_MS = 5_000;
/** Asked again this long after the server refused a stream; browsers give up then. */
const REOPEN_MS = 15_000;
/** A tab that nobody has seen for this long lets its stream go: over HTTP/1.1 browsers keep six connections for all tabs together. */
const HIDDEN_MS = 10_000;

export type Liveness = "live" | "connecting" | "polling";
let liveness: Liveness = "connecting";
const listeners = new Set<() => void>();
const watchers = new Set<(change: Change) => void>();

function become(next: Liveness): void {
  if (next === liveness) return;
  liveness = next;
  for (const listener of listeners) listener();
}

/** Whether changes come by themselves; shown in the page's corner. */
export const useLiveness = (): Liveness =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => liveness,
  );

/** Calls `watch` for each change while the component is there: for pages that do more than read again. `watch` must be stable. */
export function useChanges(watch: (change: Change) => void): void {
  useEffect(() => {
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, [watch]);
}

/** Keeps all that was read fresh until the answer is called. Once for each session. */
export function followChanges(): () => void {
  let gathered = new Map<string, readonly unknown[]>();
  let gathering: ReturnType<typeof setTimeout> | undefined;
  const flush = (): void => {
    gathering = undefined;
    const keys = gathered;
    gathered = new Map();
    for (const key of keys.values()) readAgain(key);
  };
  const readAllAgain = (): void => readAgain();

  let source: EventSource | undefined;
  let reopening: ReturnType<typeof setTimeout> | undefined;
  let closing: ReturnType<typeof setTimeout> | undefined;
  const open = (): void => {
    source = new EventSource("/api/events");
    let is_new = true;
    source.addEventListener("ready", () => {
      // What was read before it listened may have changed in between. One that comes back is told what it missed, or that it is lost.
      if (is_new) readAllAgain();
      is_new = false;
      become("live");
    });
    source.addEventListener("lost", readAllAgain);
    source.addEventListener("change", ({ data }: MessageEvent<string>) => {
      const change = JSON.parse(data) as Change;
      for (const watch of watchers) watch(change);
      for (const key of keysOf(change)) gathered.set(JSON.stringify(key), key);
      gathering ??= setTimeout(flush, GATHER_MS);
    });
    source.addEventListener("error", ({ target }) => {
      become("polling");
      // It tries again by itself, but not after a refusal.
      if ((target as EventSource).readyState !== EventSource.CLOSED) return;
      reopening = setTimeout(open, REOPEN_MS);
      // It does not say why it was refused; whoever is not signed in any more is told at once by this.
      readAllAgain();
    });
  };
  const close = (): void => {
    source?.close();
    source = undefined;
    clearTimeout(reopening);
    become("connecting");
  };
  const followSight = (): void => {
    clearTimeout(closing);
    if (document.visibilityState === "hidden") closing = setTimeout(close, HIDDEN_MS);
    else if (source === undefined) open();
  };
  followSight();
  document.addEventListener("visibilitychange", followSight);
  const poll = setInterval(() => {
    if (liveness === "polling" && document.visibilityState === "visible") readAllAgain();
  }, POLL_MS);
  return () => {
    document.removeEventListener("visibilitychange", followSight);
    clearTimeout(closing);
    clearInterval(poll);
    clearTimeout(gathering);
    close();
  };
}
