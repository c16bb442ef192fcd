import type { Desired } from "@roamfleet/protocol/link";
import type { Session } from "../../link/index.ts";
import type { Plane } from "../../context.ts";
import { Together } from "../../kernel/together.ts";
import { desiredOf } from "./desired.ts";
import { addRegistryAuth } from "./registry-auth.ts";
import { raiseGeneration } from "./store/robot-state.ts";

/** Robots told in one go: two statements for all of them. */
const PUSH_ROBOTS = 200;
const GREETINGS_AT_ONCE = 2;

/** Sends robots of this node what they are to look like. A robot that is elsewhere or away hears it when it connects. */
export async function pushDesired(
  plane: Pick<Plane, "db" | "link" | "log" | "secrets">,
  org_id: string,
  robot_ids: readonly string[],
): Promise<void> {
  const here = robot_ids.filter((id) => {
    const session = plane.link.session(id);
    return session !== undefined && !ahead.has(session);
  });
  for (let i = 0; i < here.length; i += PUSH_ROBOTS) {
    const desired = await desiredOf(plane.db.forOrg(org_id), org_id, here.slice(i, i + PUSH_ROBOTS));
    await addRegistryAuth(plane, org_id, desired);
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

/**
 * Robots that know of a later desired state than we do (the database is a restored copy): what they run is taken before they
 * are told anything. With the generation of the empty state that they were sent, which leaves everything as it is: when they
 * report to have it, they have reported everything that they had to say before.
 */
const ahead = new WeakMap<Session, number>();

type GreetingPlane = Pick<Plane, "db" | "link" | "secrets" | "log">;
const greetings = new WeakMap<Plane["link"], Together<string, Desired | undefined>>();

/** What robots that came at the same time are to look like is read together. */
function greetingsOf(plane: GreetingPlane): Together<string, Desired | undefined> {
  const known = greetings.get(plane.link);
  if (known !== undefined) return known;
  const made = new Together<string, Desired | undefined>({
    items_max: PUSH_ROBOTS,
    at_once: GREETINGS_AT_ONCE,
    work: async (org_id, robot_ids) => {
      const wanted = await desiredOf(plane.db.forOrg(org_id), org_id, [...new Set(robot_ids)]);
      await addRegistryAuth(plane, org_id, wanted);
      return robot_ids.map((id) => wanted.get(id));
    },
  });
  greetings.set(plane.link, made);
  return made;
}

/** First thing a robot hears after the welcome. */
export async function greetRobot(plane: GreetingPlane, session: Session): Promise<void> {
  const { org_id, robot_id, hello } = session;
  const desired = await greetingsOf(plane).ask(org_id, robot_id);
  if (desired === undefined) return;
  if (hello.generation <= desired.generation) return void session.send(desired);
  const generation = hello.generation + 1;
  ahead.set(session, generation);
  session.send({ type: "desired", generation, apps: {}, configs: {} });
}

/** A robot has stored a desired state. One that was ahead has told what it runs, which is now what is wanted of it, too. */
export async function answerRobotAhead(
  plane: Pick<Plane, "db" | "clock" | "link" | "log" | "secrets">,
  session: Session,
  observed: number,
): Promise<void> {
  const asked = ahead.get(session);
  if (asked === undefined || observed < asked) return;
  await raiseGeneration(plane.db.forOrg(session.org_id), session.org_id, session.robot_id, asked, plane.clock.now());
  ahead.delete(session);
  await pushDesired(plane, session.org_id, [session.robot_id]);
}
