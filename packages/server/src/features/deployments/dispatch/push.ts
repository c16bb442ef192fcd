import type { Desired } from "@roamfleet/protocol/link";
import type { Session } from "../../../link/index.ts";
import type { Plane } from "../../../context.ts";
import { KeyedBatcher } from "../../../kernel/keyed-batcher.ts";
import { addRegistryAuth, desiredOf } from "./desired.ts";
import { listUnobserved, raiseGeneration } from "../store/robot-state.ts";
import { isConnectionLost } from "../../../engines/db/index.ts";
import { isolateEach } from "../../../kernel/isolate-failures.ts";

/** Maximum robots per batch. The desired state of a batch is read with a few statements. */
const PUSH_ROBOTS = 200;
const GREETINGS_AT_ONCE = 2;

/**
 * Sends the desired state to the robots that are connected to this node. Other nodes send it to their robots on the same hint; offline
 * robots get it when they connect.
 */
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

/** Sends one message. A failure for one robot does not affect the others. */
function sendTo({ link, log }: Pick<Plane, "link" | "log">, robot_id: string, message: Desired): void {
  try {
    link.send(robot_id, message);
  } catch (error) {
    log.error({ err: error, robot_id }, "could not send the desired state to a robot");
  }
}

/**
 * Sessions of robots that have seen a later generation than the database has, because the database was restored from a copy. Such a robot
 * first gets an empty desired state, which changes nothing on it. The value in this map is the generation of that empty state. When the
 * robot reports that generation, all its earlier reports have arrived, so the database has the releases that it runs. Then the robot is
 * sent its real desired state. The map is weak, because the state belongs to this feature and ends with the session.
 */
const ahead = new WeakMap<Session, number>();

type GreetingPlane = Pick<Plane, "db" | "link" | "secrets" | "log">;
/** Batchers by link; each plane has one link. A field in the plane's type instead would need an import cycle. */
const greetings = new WeakMap<Plane["link"], KeyedBatcher<string, Desired | undefined>>();

/** Returns the batcher that reads the desired states of robots that connect at the same time. */
function greetingsOf(plane: GreetingPlane): KeyedBatcher<string, Desired | undefined> {
  const known = greetings.get(plane.link);
  if (known !== undefined) return known;
  const made = new KeyedBatcher<string, Desired | undefined>({
    items_max: PUSH_ROBOTS,
    concurrency_max: GREETINGS_AT_ONCE,
    work: async (org_id, robot_ids) => {
      const wanted = await desiredOf(plane.db.forOrg(org_id), org_id, [...new Set(robot_ids)]);
      await addRegistryAuth(plane, org_id, wanted);
      return robot_ids.map((id) => wanted.get(id));
    },
  });
  greetings.set(plane.link, made);
  return made;
}

/**
 * Sends a robot its first message after the welcome: its desired state, or an empty one if the robot is ahead of the database (see
 * `ahead`).
 */
export async function greetRobot(plane: GreetingPlane, session: Session): Promise<void> {
  const { org_id, robot_id, hello } = session;
  const desired = await greetingsOf(plane).add(org_id, robot_id);
  if (desired === undefined) return;
  if (hello.generation <= desired.generation) return void session.send(desired);
  const generation = hello.generation + 1;
  ahead.set(session, generation);
  session.send({ type: "desired", generation, apps: {}, configs: {} });
}

/**
 * Handles a robot's report that it stored a desired state. If the robot was ahead of the database, it now gets its real desired state,
 * which by then equals what the robot has reported.
 */
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

/**
 * Sends a desired state again if the hint to this node was lost. A robot normally reports a new generation within moments. If it has not
 * done so in two consecutive checks, it is sent the desired state again, once per generation.
 */
export class DesiredStateResender {
  readonly #plane: Pick<Plane, "db" | "link" | "log" | "secrets" | "node">;
  #known = new Map<string, { generation: number; was_sent: boolean }>();

  #is_gap = false;

  constructor(plane: Pick<Plane, "db" | "link" | "log" | "secrets" | "node">) {
    this.#plane = plane;
  }

  /** Call when hints were certainly lost: the next check then sends desired states again without waiting for a second check. */
  hintsWereLost(): void {
    this.#is_gap = true;
  }

  async resend(): Promise<void> {
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
    const by_org = Map.groupBy(late, (robot) => robot.org_id);
    const failures = await isolateEach(by_org, isConnectionLost, ([org_id, robots]) => {
      const robot_ids = robots.map(({ robot_id }) => robot_id);
      return pushDesired(this.#plane, org_id, robot_ids);
    });
    if (failures !== undefined) throw failures.error;
  }
}
