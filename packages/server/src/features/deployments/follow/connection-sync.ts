/**
 * Queue of robots that connected to this node and whose releases and configs are not yet compared with those of their fleet. It is in
 * memory only: if the node stops, its robots lose their links and connect again.
 */
export class ConnectionSync {
  readonly #robots = new Map<string, Set<string>>();
  /** For each org whose check failed, the time until which its robots are skipped. */
  readonly #held = new Map<string, Date>();
  /** Called when a robot is added. */
  on_add: (() => void) | undefined;

  add(org_id: string, robot_id: string): void {
    this.#of(org_id).add(robot_id);
    this.on_add?.();
  }

  /** Takes up to `limit` robots of each org that is not skipped. */
  take(limit: number, now: Date): { org_id: string; robot_ids: string[] }[] {
    return this.#ready(now).map(([org_id, robots]) => {
      const robot_ids = robots.values().take(limit).toArray();
      for (const id of robot_ids) robots.delete(id);
      if (robots.size === 0) this.#robots.delete(org_id);
      return { org_id, robot_ids };
    });
  }

  /** Puts robots back after a failure. Does not call `on_add`: an immediate retry would fail again, in an endless loop. */
  putBack(org_id: string, robot_ids: readonly string[], held_until: Date): void {
    const own = this.#of(org_id);
    for (const id of robot_ids) own.add(id);
    this.#held.set(org_id, held_until);
  }

  /** Whether `take` would return robots now. */
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

/** Queues of connected robots, by the bus of their node. See `greetings` in dispatch/push.ts. */
const connections = new WeakMap<object, ConnectionSync>();

/** Returns the queue of the node that has this bus. */
export function connectionSyncOf({ bus }: { bus: object }): ConnectionSync {
  const known = connections.get(bus) ?? new ConnectionSync();
  connections.set(bus, known);
  return known;
}
