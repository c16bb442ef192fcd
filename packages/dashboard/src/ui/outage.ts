import { useSyncExternalStore } from "react";

/** Why the page shows old data and no action can be sent. */
export interface Outage {
  /** When the server answered last, in ms of this machine's clock. */
  since_ms: number;
}

export const OUTAGE_REASON = "The server does not answer: no action can be sent until it does";

let outage: Outage | undefined;
const listeners = new Set<() => void>();

/** Starts or, with undefined, ends an outage. */
export function setOutage(next: Outage | undefined): void {
  if ((next === undefined) === (outage === undefined)) return;
  outage = next;
  for (const listener of listeners) listener();
}

export const isOutage = (): boolean => outage !== undefined;

/** The present outage; undefined while the server answers. */
export const useOutage = (): Outage | undefined =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => outage,
  );
