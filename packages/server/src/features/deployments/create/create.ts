import { APPS_MAX } from "@roamfleet/protocol/link";
import type { BodyOf, Rollout, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { badRequest, conflict, notFound } from "../../../kernel/fault.ts";
import { parseTime } from "../../../kernel/time.ts";
import { authorityOf } from "../../access/index.ts";
import { requireFileName } from "../../configs/index.ts";
import { announce } from "../../events/index.ts";
import { requireDeployable } from "../../signing/index.ts";
import { beginFanOut } from "./fan-out.ts";
import { checkConfigRollout, checkRollout } from "./check-rollout.ts";
import { requireSelector } from "./selection.ts";
import {
  type deploymentReleaseRow,
  findRelease,
  findTargetRobot,
  fleetExists,
  insertDeployment,
  insertDue,
  type NewDeployment,
} from "../store/deployments.ts";
import { insertEvents } from "../store/events.ts";
import { countOtherApps } from "../store/robots.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { deploymentChange } from "../messages.ts";
import { type CreateContext, deploymentEvent, HINT_SCHEDULED } from "../transition.ts";
import type { RowOf } from "../../../kernel/sql.ts";

/** A start time further ahead than this is refused as a typing error. */
const SCHEDULE_DAYS_MAX = 365;
const DAY_MS = 86_400_000;

export type Target = Pick<DeploymentRow, "target_kind" | "robot_id" | "fleet_id" | "target_selector">;

type TargetBody = Pick<BodyOf<Routes["createDeployment"]>, "robot_id" | "fleet_id" | "target_kind" | "target_id" | "target_selector">;

const NO_TARGET = { robot_id: null, fleet_id: null, target_selector: null };

/** Reads the target, given as `robot_id`, `fleet_id`, `target_id` or `target_selector`, and checks that it exists in the org. */
export async function resolveTarget(db: Db, org_id: string, body: TargetBody): Promise<Target> {
  const target = readTarget(body);
  if (target.robot_id !== null) {
    const robot = await findTargetRobot(db, org_id, target.robot_id);
    if (robot === undefined) throw notFound("robot", target.robot_id);
    if (robot.decommissioned) throw conflict(`robot ${robot.id} is decommissioned`);
  } else if (target.target_selector !== null) await requireSelector(db, org_id, target.target_selector);
  else if (target.fleet_id !== null && !(await fleetExists(db, org_id, target.fleet_id))) throw notFound("fleet", target.fleet_id);
  return target;
}

function readTarget({ target_id, ...body }: TargetBody): Target {
  const { target_kind } = body;
  if (target_id === undefined) return readNamedTarget(body);
  if ((body.robot_id ?? body.fleet_id ?? body.target_selector) !== undefined)
    throw badRequest("target_id means the same as robot_id or fleet_id: send only one of them");
  if (target_kind !== "robot" && target_kind !== "fleet") throw badRequest("target_id needs target_kind: robot or fleet");
  return { ...NO_TARGET, target_kind, [`${target_kind}_id`]: target_id };
}

function readNamedTarget({ robot_id, fleet_id, target_selector, target_kind }: Omit<TargetBody, "target_id">): Target {
  const given = [robot_id, fleet_id, target_selector].filter((target) => target !== undefined);
  if (given.length !== 1) throw badRequest("exactly one of robot_id, fleet_id and target_selector is required");
  const [kind, field] =
    robot_id !== undefined
      ? (["robot", "robot_id"] as const)
      : fleet_id !== undefined
        ? (["fleet", "fleet_id"] as const)
        : (["selection", "target_selector"] as const);
  if (target_kind !== undefined && target_kind !== kind) throw badRequest(`target_kind is ${target_kind}, but ${field} is given`);
  return { target_kind: kind, robot_id: robot_id ?? null, fleet_id: fleet_id ?? null, target_selector: target_selector ?? null };
}

/** Creates a deployment of a release. Its row, first event and, if it starts now, its first targets are written in one transaction. */
export async function createDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  body: BodyOf<Routes["createDeployment"]>,
): Promise<{ row: DeploymentRow; release: RowOf<typeof deploymentReleaseRow> }> {
  const { release, target, rollout, scheduled_at } = await readDeployment(db, engine, caller, body);
  const row = await startDeployment(db, engine, {
    org_id: caller.org_id,
    id: engine.id("dep"),
    kind: "release",
    ...target,
    release_id: release.id,
    app: release.app,
    namespace: null,
    revision: null,
    rollout,
    scheduled_at,
    created_by: caller.actor,
    authority: authorityOf(caller),
  });
  return { row, release };
}

/** Validates the body of a new deployment: 404 for a release, robot or fleet that does not exist, 400 for contradictory fields. */
export async function readDeployment(
  db: Db,
  engine: CreateContext,
  { org_id }: Pick<Caller, "org_id">,
  body: BodyOf<Routes["createDeployment"]>,
) {
  const release = await findRelease(db, org_id, body.release);
  if (release === undefined) throw notFound("release", body.release);
  await requireDeployable(engine, db, org_id, release);
  const target = await resolveTarget(db, org_id, body);
  if (target.robot_id !== null && (await countOtherApps(db, org_id, target.robot_id, release.app)) >= APPS_MAX)
    throw conflict(`robot ${target.robot_id} already has ${APPS_MAX} apps, the maximum; app ${release.app} cannot be added`);
  return { release, target, ...readStart(engine, target, body) };
}

/** Reads when and how the robots of a new deployment are updated. Throws 400 for contradictory fields. */
function readStart(
  engine: CreateContext,
  { target_kind }: Target,
  body: Pick<BodyOf<Routes["createConfigDeployment"]>, "scheduled_at" | "rollout">,
): { rollout: Rollout; scheduled_at: Date | null } {
  const scheduled_at = body.scheduled_at === undefined ? null : parseTime(body.scheduled_at);
  const now = engine.clock.now();
  if (scheduled_at !== null && scheduled_at.getTime() > now.getTime() + SCHEDULE_DAYS_MAX * DAY_MS)
    throw badRequest(`scheduled_at is more than ${SCHEDULE_DAYS_MAX} days ahead`);
  const { dry_run: _, ...rollout } = body.rollout ?? {};
  checkRollout(rollout, target_kind, now, scheduled_at);
  return { rollout, scheduled_at };
}

/** Validates the body of a new config deployment: 404 for a target that does not exist, 400 for contradictory fields. */
export async function readConfigDeployment(
  db: Db,
  engine: CreateContext,
  { org_id }: Pick<Caller, "org_id">,
  body: BodyOf<Routes["createConfigDeployment"]>,
) {
  if (body.namespace !== undefined) requireFileName(body.namespace);
  const target = await resolveTarget(db, org_id, body);
  const start = readStart(engine, target, body);
  checkConfigRollout(start.rollout);
  return { target, namespace: body.namespace ?? null, ...start };
}

/**
 * Creates a deployment of the effective config. The files for each robot are computed when the robot's target is dispatched: from the values
 * at that time or, in a rollout with waves, from those at the start of the deployment.
 */
export async function createConfigDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  body: BodyOf<Routes["createConfigDeployment"]>,
): Promise<DeploymentRow> {
  const { target, ...read } = await readConfigDeployment(db, engine, caller, body);
  const id = engine.id("cdep");
  return startDeployment(db, engine, {
    org_id: caller.org_id,
    id,
    kind: "config",
    ...target,
    release_id: null,
    app: null,
    revision: id,
    ...read,
    created_by: caller.actor,
    authority: authorityOf(caller),
  });
}

/** Writes a deployment's row and first event and, if it starts now, its first targets. */
export async function startDeployment(
  db: Db,
  engine: CreateContext,
  d: Omit<NewDeployment, "status" | "expires_at" | "count_total" | "fan_out_at" | "retry_of" | "rollback_of"> &
    Partial<Pick<NewDeployment, "retry_of" | "rollback_of">>,
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    const now = engine.clock.now();
    const held = d.scheduled_at !== null && d.scheduled_at > now;
    const inserted = await insertDeployment(
      tx,
      {
        retry_of: null,
        rollback_of: null,
        ...d,
        status: held ? "scheduled" : "queued",
        expires_at: null,
        count_total: 0,
        fan_out_at: null,
      },
      now,
    );
    const late = d.scheduled_at !== null && !held;
    const message = late ? `queued immediately: its start time ${d.scheduled_at?.toISOString() ?? ""} has passed` : undefined;
    const events = [deploymentEvent(engine, inserted, 1, d.created_by, now, message === undefined ? {} : { message })];
    await insertEvents(tx, d.org_id, events);
    announce(tx, engine, d.org_id, deploymentChange(inserted, "created", inserted.status));
    if (held && d.scheduled_at !== null) {
      await insertDue(tx, d.org_id, d.id, d.scheduled_at);
      tx.afterCommit(() => engine.bus.publish(HINT_SCHEDULED, null));
      return inserted;
    }
    return beginFanOut(tx, engine, inserted);
  });
}
