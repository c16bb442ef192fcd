import { isTerminal } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, Fault, notFound } from "../../kernel/fault.ts";
import { authorityOf } from "../access/index.ts";
import { requireDeployable } from "../signing/index.ts";
import { startDeployment } from "./create.ts";
import { checkRollout } from "./rollout/check-rollout.ts";
import { getDeploymentRow, holdSignedReleases, lockDeployments } from "./store/deployments.ts";
import { groupSourceMembers, type Source } from "./store/rollback.ts";
import type { DeploymentRow } from "./store/rows.ts";
import type { CreateContext } from "./transition.ts";

/** What a deployment without a policy of its own takes over: how long robots watch. */
const plain = ({ verify_seconds }: Rollout): Rollout => (verify_seconds === undefined ? {} : { verify_seconds });

/** A policy once more: the time at which it gave up may have passed. */
const again = ({ expires_at: _, ...rollout }: Rollout): Rollout => rollout;

/** A new deployment of an ended one's robots. 409 when there are none for it. */
export async function createFromEnded(
  tx: Db,
  engine: CreateContext,
  ended: DeploymentRow,
  as: Source["as"],
  rollout: Rollout | undefined,
  caller: Caller,
): Promise<DeploymentRow> {
  const { org_id, id, target_kind, robot_id, fleet_id, app } = ended;
  const groups = await groupSourceMembers(tx, org_id, { deployment_id: id, as, fleet_id });
  if (groups.length === 0)
    throw conflict(
      as === "retry" ? `no robot of deployment ${id} failed or was rolled back` : `no robot runs what deployment ${id} brought any more`,
    );
  const wanted = groups.flatMap(({ release_id }) => release_id ?? []);
  const { deployable, refusal } = await findDeployable(tx, engine, org_id, wanted);
  // Robots whose release cannot be had fail each by itself; where none can, and none is to lose what it has, nothing is begun.
  if (deployable === undefined && wanted.length === groups.length)
    throw refusal ?? conflict(`what the robots of deployment ${id} would get was deleted: release ${wanted.join(", ")}`);
  // Where every robot had none before, the release that it loses stands for the whole.
  const release_id = deployable ?? ended.release_id;
  return startDeployment(tx, engine, {
    org_id,
    id: engine.id("dep"),
    kind: "release",
    target_kind,
    robot_id,
    fleet_id,
    release_id,
    app,
    namespace: null,
    revision: null,
    rollout: rollout ?? (as === "retry" ? again(ended.rollout) : plain(ended.rollout)),
    scheduled_at: null,
    created_by: caller.actor,
    authority: authorityOf(caller),
    retry_of: as === "retry" ? id : null,
    rollback_of: as === "rollback" ? id : null,
  });
}

/** The first of these releases that is still there and that the robots would take; else why they would refuse the first that is there. */
export async function findDeployable(
  tx: Db,
  engine: CreateContext,
  org_id: string,
  wanted: readonly string[],
): Promise<{ deployable?: string; refusal?: Fault }> {
  const there = new Map((await holdSignedReleases(tx, org_id, wanted)).map((release) => [release.id, release]));
  let refusal: Fault | undefined;
  for (const release of wanted.flatMap((one) => there.get(one) ?? [])) {
    try {
      await requireDeployable(engine, tx, org_id, release);
      return { deployable: release.id };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      refusal ??= error;
    }
  }
  return refusal === undefined ? {} : { refusal };
}

/** Deploys again to the robots on which an ended deployment failed or was rolled back, by its policy or another one. */
export async function retryDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  id: string,
  rollout: Rollout | undefined,
): Promise<DeploymentRow> {
  const { org_id } = caller;
  return db.transaction(async (tx) => {
    if ((await getDeploymentRow(tx, org_id, "release", id)) === undefined) throw notFound("deployment", id);
    const [row] = await lockDeployments(tx, org_id, [id]);
    if (row === undefined) throw notFound("deployment", id);
    if (!isTerminal(row.status)) throw conflict(`deployment ${id} has not ended: it is ${row.status}`);
    if (rollout !== undefined) checkRollout(rollout, row.target_kind, engine.clock.now(), null);
    return createFromEnded(tx, engine, row, "retry", rollout, caller);
  });
}
