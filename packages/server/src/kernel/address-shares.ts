import { networkOf } from "./networks.ts";

/**
 * Divides a number of slots between networks with dynamic thresholds: each network may take as many slots as are still free. One network
 * gets half of the slots, two get a third each, and a new network always finds one.
 */
export class AddressShares {
  readonly #places: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(places: number) {
    this.#places = places;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Returns whether an address may take one more slot. */
  hasRoom(address: string): boolean {
    return (this.#held.get(networkOf(address)) ?? 0) < this.#places - this.#taken;
  }

  /** Takes a slot. The returned function releases it; further calls have no effect. */
  take(address: string): () => void {
    const network = networkOf(address);
    this.#held.set(network, (this.#held.get(network) ?? 0) + 1);
    this.#taken += 1;
    let is_held = true;
    return () => {
      if (!is_held) return;
      is_held = false;
      this.#taken -= 1;
      const left = (this.#held.get(network) ?? 1) - 1;
      if (left > 0) this.#held.set(network, left);
      else this.#held.delete(network);
    };
  }
}
