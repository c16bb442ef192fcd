import { useSyncExternalStore } from "react";

/** Creates a clock with one timer for the whole page, which runs only while it is used. Returns a hook that returns the time in ms. */
export function ticker(tick_ms: number): () => number {
  const listeners = new Set<() => void>();
  let now_ms = Date.now();
  let timer: ReturnType<typeof setInterval> | undefined;
  const tick = (): void => {
    now_ms = Date.now();
    for (const listener of listeners) listener();
  };
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener);
    if (timer === undefined) now_ms = Date.now();
    timer ??= setInterval(tick, tick_ms);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  };
  return () => useSyncExternalStore(subscribe, () => now_ms);
}
