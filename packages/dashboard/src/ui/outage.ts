import { useSyncExternalStore } from "react";

/** An outage: the page shows old data, and actions are disabled. */
export interface Outage {
  /** Time of the server's last response, in ms of the browser's clock. */
  since_ms: number;
}

export const OUTAGE_REASON = "Actions are disabled until the server responds";

let outage: Outage | undefined;
const listeners = new Set<() => void>();

/** Starts or, with undefined, ends an outage. */
export function setOutage(next: Outage | undefined): void {
  if ((next === undefined) === (outage === undefined)) return;
  outage = next;
  for (const listener of listeners) listener();
}

export const isOutage = (): boolean => outage !== undefined;

/** The current outage; undefined while the server responds. */
export const useOutage = (): Outage | undefined =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => outage,
  );
