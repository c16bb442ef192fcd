import { LRUCache } from "lru-cache";
import type { Clock } from "@roamfleet/clock";
import { networkOf } from "../../kernel/networks.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";

/** Concurrent handshakes: of all networks from which no node has connected, of each of them, and of known networks. */
export const UNKNOWN_HANDSHAKES_MAX = 128;
export const UNKNOWN_HANDSHAKES_PER_NETWORK_MAX = 64;
const KNOWN_HANDSHAKES_MAX = 512;
export const KNOWN_HANDSHAKES_PER_NETWORK_MAX = 256;
/** Handshake rate of one unknown network. A handshake costs about 1 ms of a core. */
export const UNKNOWN_RATE = { per_minute: 1_200, burst: 200 };
/** Known networks that are remembered, the most recent ones. */
const KNOWN_NETWORKS_MAX = 1_000;

/**
 * Decides which connections to the listener for other nodes may start a TLS handshake. Any machine that reaches the port can connect, so
 * networks with a verified node have separate slots, and the others have few, at a limited rate.
 */
export class HandshakeAdmission {
  readonly #known = new LRUCache<string, true>({ max: KNOWN_NETWORKS_MAX });
  readonly #by_network = new Map<string, number>();
  readonly #rate: RateLimit;
  #unknown = 0;
  #of_nodes = 0;

  constructor(clock: Clock) {
    this.#rate = new RateLimit(clock, "node handshakes", UNKNOWN_RATE);
  }

  /** Records that a node proved its identity from this address. */
  remember(address: string): void {
    this.#known.set(networkOf(address), true);
  }

  /** Takes a handshake slot. Returns the function that releases it, or undefined if there is none. */
  enter(address: string): (() => void) | undefined {
    const network = networkOf(address);
    const of_network = this.#by_network.get(network) ?? 0;
    const is_known = this.#known.has(network);
    if (of_network >= (is_known ? KNOWN_HANDSHAKES_PER_NETWORK_MAX : UNKNOWN_HANDSHAKES_PER_NETWORK_MAX)) return undefined;
    if (is_known ? this.#of_nodes >= KNOWN_HANDSHAKES_MAX : this.#unknown >= UNKNOWN_HANDSHAKES_MAX) return undefined;
    if (!is_known && !this.#rate.tryTake(network, 1)) return undefined;
    if (is_known) this.#of_nodes += 1;
    else this.#unknown += 1;
    this.#by_network.set(network, of_network + 1);
    return once(() => {
      if (is_known) this.#of_nodes -= 1;
      else this.#unknown -= 1;
      const left = (this.#by_network.get(network) ?? 1) - 1;
      if (left > 0) this.#by_network.set(network, left);
      else this.#by_network.delete(network);
    });
  }
}

function once(release: () => void): () => void {
  let is_released = false;
  return () => {
    if (is_released) return;
    is_released = true;
    release();
  };
}
