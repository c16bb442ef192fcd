import type { Desired } from "@robofleet/protocol/link";
import type { Session } from "../../link/index.ts";
import type { Plane } from "../../context.ts";
import { desiredOf } from "./desired.ts";
import { raiseGeneration } from "./store/robot-state.ts";

/** Robots told in one go: two statements for all of them. */
const PUSH_ROBOTS = 200;

/** Sends robots of this node what they are to look like. A robot that is elsewhere or away hears it when it connects. */
export async function pushDesired(plane: Pick<Plane, "db" | "link" | "log">, org_id: string, robot_ids: readonly string[]): Promise<void> {
  const here = robot_ids.filter((id) => plane.link.session(id) !== undefined);
  for (let i = 0; i < here.length; i += PUSH_ROBOTS) {
    const desired = await desiredOf(plane.db.forOrg(org_id), org_id, here.slice(i, i + PUSH_ROBOTS));
    for (const [robot_id, message] of desired) sendTo(plane, robot_id, message);
  }
}

/** One robot whose message cannot be sent does not keep the others from theirs. */
function sendTo({ link, log }: Pick<Plane, "link" | "log">, robot_id: string, message: Desired): void {
  try {
    link.send(robot_id, message);
  } catch (error) {
    log.error({ err: error, robot_id }, "a robot could not be told what it is to look like");
  }
}

/** Robots that know of a later desired state than we do: what they run is taken before they are told anything. */
const ahead = new WeakSet<Session>();

/** First thing a robot hears after the welcome. */
export async function greetRobot(plane: Pick<Plane, "db" | "clock">, session: Session): Promise<void> {
  const { generation } = session.hello;
  const db = plane.db.forOrg(session.org_id);
  if (generation > 0 && (await raiseGeneration(db, session.org_id, session.robot_id, generation, plane.clock.now())) > 0) {
    ahead.add(session);
    return;
  }
  const desired = (await desiredOf(db, session.org_id, [session.robot_id])).get(session.robot_id);
  if (desired !== undefined) session.send(desired);
}

/** The robot told what it runs, which is now what is wanted of it, too. */
export async function answerRobotAhead(plane: Pick<Plane, "db" | "link" | "log">, session: Session): Promise<void> {
  if (ahead.delete(session)) await pushDesired(plane, session.org_id, [session.robot_id]);
}
