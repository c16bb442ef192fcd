/**
 * Robots that connected to this node and were not looked at yet. It need not outlive the node: with the node their links
 * are gone, too, and they connect again.
 */
export class Arrivals {
  readonly #robots = new Map<string, Set<string>>();
  size = 0;
  /** Called when there is one. */
  on_arrival: (() => void) | undefined;

  add(org_id: string, robot_id: string): void {
    const own = this.#robots.get(org_id) ?? new Set();
    this.#robots.set(org_id, own);
    if (!own.has(robot_id)) this.size += 1;
    own.add(robot_id);
    this.on_arrival?.();
  }

  /** Takes some of each org. */
  take(limit: number): { org_id: string; robot_ids: string[] }[] {
    return [...this.#robots].map(([org_id, robots]) => {
      const robot_ids = robots.values().take(limit).toArray();
      for (const id of robot_ids) robots.delete(id);
      this.size -= robot_ids.length;
      if (robots.size === 0) this.#robots.delete(org_id);
      return { org_id, robot_ids };
    });
  }
}

const arrivals = new WeakMap<object, Arrivals>();

/** Those of the node with this bus. */
export function arrivalsOf({ bus }: { bus: object }): Arrivals {
  const known = arrivals.get(bus) ?? new Arrivals();
  arrivals.set(bus, known);
  return known;
}
