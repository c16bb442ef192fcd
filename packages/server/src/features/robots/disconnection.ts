import { robotActor } from "../../kernel/caller.ts";
import type { TimelineRecord } from "../timeline/index.ts";
import type { RobotRef } from "./store-presence.ts";

/** What the timeline of a robot says when its link is gone. */
export const disconnection = ({ org_id, id }: RobotRef, reason: string, data: Record<string, unknown> = {}): TimelineRecord => ({
  org_id,
  robot_id: id,
  kind: "robot.disconnected",
  actor: robotActor(id),
  summary: `The robot disconnected: ${reason}`,
  data: { ...data, reason },
});
