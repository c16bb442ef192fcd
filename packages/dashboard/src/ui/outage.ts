import { createStore } from "./store.ts";

/** An outage: the page shows old data, and actions are disabled. */
interface Outage {
  /** Time of the server's last response, in ms of the browser's clock. */
  since_ms: number;
}

export const OUTAGE_REASON = "Actions are disabled until the server responds";

const outage = createStore<Outage | undefined>(undefined);

/** Starts or, with undefined, ends an outage. */
export function setOutage(next: Outage | undefined): void {
  if (next === undefined || outage.get() === undefined) outage.set(next);
}

export const isOutage = (): boolean => outage.get() !== undefined;

/** The current outage; undefined while the server responds. */
export const useOutage = outage.use;
