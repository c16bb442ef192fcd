/**
 * Robots that connected to this node and were not looked at yet. It need not outlive the node: with the node their links
 * are gone, too, and they connect again.
 */
export class Arrivals {
  readonly #robots = new Map<string, Set<string>>();
  /** Orgs for which it failed, and until when they are left alone. */
  readonly #held = new Map<string, Date>();
  /** Called when there is one. */
  on_arrival: (() => void) | undefined;

  add(org_id: string, robot_id: string): void {
    this.#of(org_id).add(robot_id);
    this.on_arrival?.();
  }

  /** Takes some of each org that is not held. */
  take(limit: number, now: Date): { org_id: string; robot_ids: string[] }[] {
    return this.#ready(now).map(([org_id, robots]) => {
      const robot_ids = robots.values().take(limit).toArray();
      for (const id of robot_ids) robots.delete(id);
      if (robots.size === 0) this.#robots.delete(org_id);
      return { org_id, robot_ids };
    });
  }

  /** They could not be looked at. Wakes nobody: what just failed would fail again at once, and again. */
  putBack(org_id: string, robot_ids: readonly string[], held_until: Date): void {
    const own = this.#of(org_id);
    for (const id of robot_ids) own.add(id);
    this.#held.set(org_id, held_until);
  }

  /** Whether there are some that may be taken now. */
  hasReady(now: Date): boolean {
    return this.#ready(now).length > 0;
  }

  #ready(now: Date): [org_id: string, robots: Set<string>][] {
    for (const [org_id, until] of this.#held) if (until <= now) this.#held.delete(org_id);
    return [...this.#robots].filter(([org_id]) => !this.#held.has(org_id));
  }

  #of(org_id: string): Set<string> {
    const own = this.#robots.get(org_id) ?? new Set();
    this.#robots.set(org_id, own);
    return own;
  }
}

const arrivals = new WeakMap<object, Arrivals>();

/** Those of the node with this bus. */
export function arrivalsOf({ bus }: { bus: object }): Arrivals {
  const known = arrivals.get(bus) ?? new Arrivals();
  arrivals.set(bus, known);
  return known;
}
