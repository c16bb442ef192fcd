import type { Plane } from "../../context.ts";
import { robotActor } from "../../kernel/caller.ts";
import { Together } from "../../kernel/together.ts";
import type { Session } from "../../link/index.ts";
import { announce } from "../events/index.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { isDuplicate, recordDuplicate } from "./duplicates.ts";
import { takeKeyOfHello } from "./identity.ts";
import { setOnline } from "./store-comings.ts";

/** Connects per transaction: few enough that others wait only briefly for the robots' rows. */
const BATCH_COMINGS_MAX = 500;
const BATCHES_AT_ONCE = 3;

interface Coming {
  session: Session;
  /** The link that this one replaced, if it was still open. */
  older: Session | undefined;
  /** The key with which its hello was signed, if known. */
  public_key: Buffer | undefined;
}

type ComingsPlane = Pick<Plane, "db" | "db_errors" | "clock" | "id" | "node" | "bus">;

/**
 * Writes connects. A single connect is written immediately; connects that arrive during a write are written in one batch, so thousands of
 * concurrent ones take a few transactions. The gateway bounds the queue.
 */
export class Comings {
  readonly #together: Together<Coming, boolean>;

  constructor(plane: ComingsPlane) {
    this.#together = new Together({
      items_max: BATCH_COMINGS_MAX,
      at_once: BATCHES_AT_ONCE,
      nameOf: ({ session }) => session.robot_id,
      concernsAll: (error) => plane.db_errors.isOutage(error),
      work: (org_id, comings) => write(plane, org_id, comings),
    });
  }

  /**
   * Resolves with true when the robot is online in its row and timeline, with false if it was decommissioned, replaced or quarantined
   * since.
   */
  record(session: Session, older: Session | undefined): Promise<boolean> {
    return this.#together.ask(session.org_id, { session, older, public_key: takeKeyOfHello(session.hello) });
  }
}

function write(plane: ComingsPlane, org_id: string, comings: readonly Coming[]): Promise<boolean[]> {
  return plane.db.forOrg(org_id).transaction(async (tx) => {
    const presences = comings.map(({ session: { session_id, hello }, public_key }) => ({ session_id, hello, public_key }));
    const runs = await setOnline(tx, org_id, plane.node, presences, plane.clock.now());
    const here = comings.filter(({ session }) => runs.has(session.robot_id));
    announce(
      tx,
      plane,
      org_id,
      here.map(({ session }) => ({ kind: "robot", id: session.robot_id, change: "presence", status: "online" })),
    );
    await recordTimelineMany(
      tx,
      plane,
      here.map(({ session }) => connection(session)),
    );
    const welcome = new Set<Coming>(here);
    for (const coming of here) {
      const { session, older } = coming;
      const before = runs.get(session.robot_id) ?? [];
      if (!isDuplicate(before, session.hello.run_id)) continue;
      if ((await recordDuplicate(tx, plane, { session, older, older_run: before[0] })).held) welcome.delete(coming);
    }
    return comings.map((coming) => welcome.has(coming));
  });
}

const connection = ({ org_id, robot_id, session_id, ip, hello: { agent_version, boot_id } }: Session) => ({
  org_id,
  robot_id,
  kind: "robot.connected",
  actor: robotActor(robot_id),
  summary: "The robot connected",
  data: { session_id, ip, agent_version, boot_id },
});
