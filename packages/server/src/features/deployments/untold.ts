import type { Plane } from "../../context.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import { isolateEach } from "../../kernel/isolate-failures.ts";
import { pushDesired } from "./push.ts";
import { listUnobserved } from "./store/robot-state.ts";

/**
 * Sends desired states again whose hint to this node was lost. A robot reports a new generation within moments: one that has not done so in
 * two consecutive checks is sent it again, once per generation.
 */
export class UntoldRobots {
  readonly #plane: Pick<Plane, "db" | "link" | "log" | "secrets" | "node">;
  #known = new Map<string, { generation: number; was_sent: boolean }>();

  #is_gap = false;

  constructor(plane: Pick<Plane, "db" | "link" | "log" | "secrets" | "node">) {
    this.#plane = plane;
  }

  /** Call when hints were certainly lost: the next check does not wait for a second one. */
  missed(): void {
    this.#is_gap = true;
  }

  async tell(): Promise<void> {
    const { db, link, node } = this.#plane;
    const is_gap = this.#is_gap;
    this.#is_gap = false;
    const known = new Map<string, { generation: number; was_sent: boolean }>();
    const late: { org_id: string; robot_id: string }[] = [];
    for (const { org_id, robot_id, generation } of await listUnobserved(db, node)) {
      if ((link.session(robot_id)?.hello.generation ?? generation) >= generation) continue;
      const before = this.#known.get(robot_id);
      const is_late = is_gap || before?.generation === generation;
      const was_sent_before = before?.generation === generation && before.was_sent;
      if (is_late && !was_sent_before) late.push({ org_id, robot_id });
      known.set(robot_id, { generation, was_sent: is_late || was_sent_before });
    }
    this.#known = known;
    const failures = await isolateEach(
      Map.groupBy(late, (robot) => robot.org_id),
      isConnectionLost,
      ([org_id, robots]) =>
        pushDesired(
          this.#plane,
          org_id,
          robots.map(({ robot_id }) => robot_id),
        ),
    );
    if (failures !== undefined) throw failures.error;
  }
}
