import type { Timer } from "@roamfleet/clock";
import type { Plane } from "../../context.ts";
import { followLogs, type LogListener, robotsOfFleet } from "../logs/index.ts";

export interface FollowedFleet {
  org_id: string;
  fleet_id: string;
}

/** Follows the logs of a fleet's robots that are connected to this node. */
export class FleetFollowers {
  readonly #plane: Plane;
  readonly #fleet: FollowedFleet;
  readonly #take: LogListener;
  readonly #follows = new Map<string, () => void>();
  #again: Timer | undefined;
  #over = false;

  constructor(plane: Plane, fleet: FollowedFleet, take: LogListener) {
    this.#plane = plane;
    this.#fleet = fleet;
    this.#take = take;
  }

  /** Reads which robots are in the fleet. Follows the logs of new ones, and stops following robots that left. */
  async refresh(): Promise<void> {
    const { org_id, fleet_id } = this.#fleet;
    const members = new Set(await robotsOfFleet(this.#plane.db.forOrg(org_id), org_id, fleet_id));
    if (this.#over) return;
    for (const robot_id of members) {
      if (this.#follows.has(robot_id)) continue;
      this.#follows.set(robot_id, followLogs(this.#plane, org_id, robot_id, this.#take, { hurry: false }));
    }
    for (const [robot_id, end] of this.#follows) {
      if (members.has(robot_id)) continue;
      end();
      this.#follows.delete(robot_id);
    }
  }

  /** Ids of the followed robots. */
  get robots(): string[] {
    return [...this.#follows.keys()];
  }

  /** Starts to call `refresh` at this interval. */
  every(ms: number): void {
    this.#again = this.#plane.clock.every(ms, () =>
      this.refresh().catch((error: unknown) => this.#plane.log.warn({ err: error }, "could not read the robots of a fleet")),
    );
  }

  end(): void {
    this.#over = true;
    this.#again?.cancel();
    for (const end of this.#follows.values()) end();
    this.#follows.clear();
  }
}
