import { Hold, type ReadValve } from "./read-valve.ts";

/**
 * Bytes of messages of all links of a node that may wait for the database. Received and parsed they take about five times as much memory.
 */
export const WORK_BYTES_MAX = 32 * 1024 * 1024;

interface OrgWork {
  bytes: number;
  /** Links whose reading is paused. */
  held: Set<ReadValve>;
}

/**
 * Bounds the memory of pending messages of all links, and divides it between orgs with dynamic thresholds: an org may take as much as is
 * still free. One org gets half of the budget, two get a third each, and a new org always finds room. Links of an org above its share are
 * not read: their data stays on the robots' disks.
 */
export class WorkBudget {
  readonly #bytes_max: number;
  readonly #orgs = new Map<string, OrgWork>();
  #bytes = 0;

  constructor(bytes_max = WORK_BYTES_MAX) {
    this.#bytes_max = bytes_max;
  }

  /** Bytes that wait or are being processed. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of links whose reading is paused. */
  get held(): number {
    let held = 0;
    for (const org of this.#orgs.values()) held += org.held.size;
    return held;
  }

  take(org_id: string, valve: ReadValve, bytes: number): void {
    let org = this.#orgs.get(org_id);
    if (org === undefined) this.#orgs.set(org_id, (org = { bytes: 0, held: new Set() }));
    org.bytes += bytes;
    this.#bytes += bytes;
    if (org.bytes < this.#free || org.held.has(valve)) return;
    org.held.add(valve);
    valve.hold(Hold.budget);
  }

  giveBack(org_id: string, bytes: number): void {
    const org = this.#orgs.get(org_id);
    if (org === undefined) return;
    org.bytes -= bytes;
    this.#bytes -= bytes;
    if (org.bytes <= 0) this.#orgs.delete(org_id);
    if (org.bytes <= this.#free / 2) releaseAll(org);
    // Bytes that one org releases are free for all.
    for (const other of this.#orgs.values()) if (other.held.size > 0 && other.bytes <= this.#free / 2) releaseAll(other);
  }

  get #free(): number {
    return this.#bytes_max - this.#bytes;
  }
}

function releaseAll(org: OrgWork): void {
  const valves = [...org.held];
  org.held.clear();
  for (const valve of valves) valve.release(Hold.budget);
}
