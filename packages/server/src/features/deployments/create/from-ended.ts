import { isTerminal } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { conflict, Fault } from "../../../kernel/fault.ts";
import { authorityOf } from "../../access/index.ts";
import { requireDeployable } from "../../signing/index.ts";
import { startDeployment } from "./create.ts";
import { checkRollout } from "./check-rollout.ts";
import { lockSignedReleases } from "../store/deployments.ts";
import { lockDeployment } from "../read.ts";
import { groupSourceMembers, type Source, sourceIn } from "../store/rollback.ts";
import type { DeploymentRow } from "../store/rows.ts";
import type { CreateContext } from "../transition.ts";

/** Returns the part of an ended deployment's policy that its rollback keeps: the verification time. */
const plain = ({ verify_seconds }: Rollout): Rollout => (verify_seconds === undefined ? {} : { verify_seconds });

/** Returns the policy of an ended deployment for its retry. Omits the expiry time, which may have passed. */
const again = ({ expires_at: _, ...rollout }: Rollout): Rollout => rollout;

/** Creates a deployment that retries an ended one or rolls it back. Throws 409 if no robot qualifies. */
export async function createFromEnded(
  tx: Db,
  engine: CreateContext,
  ended: DeploymentRow,
  as: Source["as"],
  rollout: Rollout | undefined,
  caller: Caller,
): Promise<DeploymentRow> {
  const { org_id, id, target_kind, robot_id, fleet_id, target_selector, app } = ended;
  const groups = await groupSourceMembers(tx, org_id, sourceIn(ended, id, as));
  if (groups.length === 0)
    throw conflict(
      as === "retry" ? `no robot of deployment ${id} failed or was rolled back` : `no robot still runs what deployment ${id} installed`,
    );
  const wanted = groups.flatMap(({ release_id }) => release_id ?? []);
  const { deployable, refusal } = await findDeployable(tx, engine, org_id, wanted);
  // A robot whose release is unavailable fails separately. Start nothing only if every release is unavailable and no robot removes the app.
  if (deployable === undefined && wanted.length === groups.length)
    throw refusal ?? conflict(`the releases for the robots of deployment ${id} were deleted: ${wanted.join(", ")}`);
  // If no release can be deployed, the new deployment still refers to one: the ended deployment's release, which some of the robots remove.
  const release_id = deployable ?? ended.release_id;
  return startDeployment(tx, engine, {
    org_id,
    id: engine.id("dep"),
    kind: "release",
    target_kind,
    robot_id,
    fleet_id,
    target_selector,
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

/**
 * Returns the first of these releases that exists and that robots would accept. If there is none, returns why robots would refuse the first
 * one that exists.
 */
export async function findDeployable(
  tx: Db,
  engine: CreateContext,
  org_id: string,
  wanted: readonly string[],
): Promise<{ deployable?: string; refusal?: Fault }> {
  const existing = new Map((await lockSignedReleases(tx, org_id, wanted)).map((release) => [release.id, release]));
  let refusal: Fault | undefined;
  for (const release of wanted.flatMap((one) => existing.get(one) ?? [])) {
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

/** Deploys again to the robots on which an ended deployment failed or was rolled back, with its policy or a new one. */
export async function retryDeployment(
  db: Db,
  engine: CreateContext,
  caller: Caller,
  id: string,
  rollout: Rollout | undefined,
): Promise<DeploymentRow> {
  const { org_id } = caller;
  return db.transaction(async (tx) => {
    const row = await lockDeployment(tx, org_id, "release", id);
    if (!isTerminal(row.status)) throw conflict(`deployment ${id} has not ended: it is ${row.status}`);
    if (rollout !== undefined) checkRollout(rollout, row.target_kind, engine.clock.now(), null);
    return createFromEnded(tx, engine, row, "retry", rollout, caller);
  });
}
