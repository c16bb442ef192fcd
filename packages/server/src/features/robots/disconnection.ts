import type { Plane } from "../../context.ts";
import { robotActor } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { announce } from "../events/index.ts";
import type { TimelineRecord } from "../timeline/index.ts";
import type { RobotRef } from "./store-presence.ts";

/** Builds the timeline entry of a disconnect. */
export const disconnection = ({ org_id, id }: RobotRef, reason: string, data: Record<string, unknown> = {}): TimelineRecord => ({
  org_id,
  robot_id: id,
  kind: "robot.disconnected",
  actor: robotActor(id),
  summary: `The robot disconnected: ${reason}`,
  data: { ...data, reason },
});

/** Publishes that the robots are offline. */
export function announceOffline(tx: Db, plane: Pick<Plane, "bus">, gone: readonly RobotRef[]): void {
  for (const [org_id, robots] of Map.groupBy(gone, (robot) => robot.org_id))
    announce(
      tx,
      plane,
      org_id,
      robots.map(({ id }) => ({ kind: "robot", id, change: "presence", status: "offline" })),
    );
}
