import { networkOf } from "./networks.ts";

/**
 * Divides places between networks by dynamic thresholds: each may hold as many as are still free. One network gets half of
 * them, two get a third each, and a newcomer always finds one.
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

  /** Whether an address may hold one more place. */
  hasRoom(address: string): boolean {
    return (this.#held.get(networkOf(address)) ?? 0) < this.#places - this.#taken;
  }

  /** Takes a place; the returned function gives it back, once. */
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
