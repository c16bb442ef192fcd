/** Maximum bytes of incomplete messages and of unread stream messages, over all links of a node. */
export const RECEIVE_BYTES_MAX = 256 * 1024 * 1024;

/** A link that can be ended to free its memory. */
export interface Holder {
  readonly org_id: string;
  evict(): void;
}

interface OrgMemory {
  bytes: number;
  links: Map<Holder, number>;
}

/**
 * Bounds the memory of incomplete and unread messages of all links. When the limit is exceeded, finds the org that uses the most memory, and
 * closes its link with the most buffered bytes.
 */
export class ReceiveBudget {
  readonly #bytes_max: number;
  readonly #orgs = new Map<string, OrgMemory>();
  #bytes = 0;

  constructor(bytes_max = RECEIVE_BYTES_MAX) {
    this.#bytes_max = bytes_max;
  }

  get bytes(): number {
    return this.#bytes;
  }

  change(holder: Holder, bytes: number): void {
    let org = this.#orgs.get(holder.org_id);
    if (org === undefined) this.#orgs.set(holder.org_id, (org = { bytes: 0, links: new Map() }));
    const before = org.links.get(holder) ?? 0;
    // A link that `forget` removed may still release bytes that it took before.
    const after = Math.max(0, before + bytes);
    if (after > 0) org.links.set(holder, after);
    else org.links.delete(holder);
    org.bytes += after - before;
    this.#bytes += after - before;
    if (org.links.size === 0) this.#orgs.delete(holder.org_id);
    if (bytes > 0 && this.#bytes > this.#bytes_max) this.#evictLargest();
  }

  /** Removes a closed link from the accounting. */
  forget(holder: Holder): void {
    const held = this.#orgs.get(holder.org_id)?.links.get(holder);
    if (held !== undefined) this.change(holder, -held);
  }

  #evictLargest(): void {
    let org: OrgMemory | undefined;
    for (const one of this.#orgs.values()) if (org === undefined || one.bytes > org.bytes) org = one;
    let largest: [Holder, number] | undefined;
    for (const one of org?.links ?? []) if (largest === undefined || one[1] > largest[1]) largest = one;
    if (largest === undefined) return;
    this.forget(largest[0]);
    largest[0].evict();
  }
}
