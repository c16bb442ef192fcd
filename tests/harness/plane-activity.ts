import { trackActivity, type TrackedActivity } from "@roamfleet/clock";
import type { Swarm } from "@roamfleet/swarm/testing";
import type { Bus } from "../../packages/server/src/engines/bus/index.ts";
import { passed } from "../../packages/server/src/engines/bus/testing/listening.ts";

/** Number of successive barriers without activity after which the plane and its robots count as idle. */
const QUIET_BARRIERS = 2;
const ROUNDS_MAX = 10_000;

/**
 * Tracks the activity of a plane and its robots: work in progress (queries, requests, hints) is counted. Frames in transit are not
 * counted: a barrier proves that none is left.
 */
export class PlaneActivity implements TrackedActivity {
  readonly #work = trackActivity();
  #begun = 0;
  #idle_at = "";
  /** Tracks the activity of the robots. Undefined if there are none. */
  swarm: Swarm | undefined;
  /** The buses of all nodes, between which messages may be in transit. */
  buses: readonly Bus[] = [];

  get pending(): number {
    return this.#work.pending;
  }

  begin(): () => void {
    this.#begun += 1;
    return this.#work.begin();
  }

  async idle(): Promise<void> {
    await this.#work.idle();
    let quiet = this.#mark() === this.#idle_at ? QUIET_BARRIERS : 0;
    for (let rounds = 0; quiet < QUIET_BARRIERS; rounds += 1) {
      if (rounds > ROUNDS_MAX) throw new Error("the plane and its robots do not become idle");
      await this.#heard();
      const before = this.#mark();
      await this.swarm?.barrier();
      await this.#work.idle();
      quiet = this.#mark() === before ? quiet + 1 : 0;
    }
    this.#idle_at = this.#mark();
  }

  /** Resolves when each node has received all messages that the other nodes have sent so far. */
  async #heard(): Promise<void> {
    const connected = this.buses.filter((bus) => bus.connected);
    await Promise.all(connected.flatMap((from) => connected.filter((to) => to !== from).map((to) => passed(from, to))));
  }

  #mark(): string {
    return `${this.#begun} ${this.swarm?.messages ?? 0}`;
  }
}
