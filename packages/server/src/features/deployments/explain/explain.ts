import type { Explanation } from "@roamfleet/protocol/routes";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { found, notFound } from "../../../kernel/fault.ts";
import { readAuthorities } from "../../access/index.ts";
import { lastOrderNumbers, rivalsOf } from "../dispatch/dispatch.ts";
import { waveFacts } from "../rollout/advance.ts";
import { findAgentArch, getDeploymentRow, listReleases } from "../store/deployments.ts";
import {
  type ExplainedRobot,
  findExplainedRobot,
  findLatestDeploymentId,
  findLastEventDetail,
  findNewerDeploymentId,
  findTarget,
} from "../store/explain.ts";
import { listUnwantedFollows } from "../store/follow.ts";
import { listAppStates } from "../store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";
import { listOpenTargets } from "../store/targets.ts";
import { listGroups, listMembersOfGroups } from "../store/waves.ts";
import { conditionsOf, summarize } from "./conditions.ts";
import type { ExplainFacts } from "./facts.ts";
import type { Engine } from "../transition.ts";

/**
 * Explains why a robot has not installed the release of a deployment. Without an id, takes the newest deployment of a release that concerns
 * the robot. Reads only. Throws 404 if the robot or the deployment does not exist.
 */
export function explainRobot(
  db: Db,
  { clock }: Pick<Engine, "clock">,
  caller: Caller,
  robot_id: string,
  deployment_id: string | undefined,
): Promise<Explanation> {
  // In a transaction, so that all facts are from about the same time, and permissions that are read stay locked until the end.
  const { org_id } = caller;
  return db.transaction(async (tx) => {
    const robot = found(await findExplainedRobot(tx, org_id, robot_id), "robot", robot_id);
    const id = deployment_id ?? (await findLatestDeploymentId(tx, caller, robot));
    const about = { robot_id, robot_name: robot.name };
    if (id === undefined)
      return {
        ...about,
        deployment_id: null,
        release: null,
        state: "no_deployment",
        summary: "no release was deployed to the robot or to its fleet",
        conditions: [],
      };
    const deployment = await getDeploymentRow(tx, org_id, "release", id);
    if (deployment === undefined) throw notFound("deployment", id);
    const { facts, runs } = await readFacts(tx, caller, robot, deployment);
    const conditions = conditionsOf(facts, clock.now());
    const { release_id, app } = deployment;
    return {
      ...about,
      deployment_id: id,
      release: release_id === null ? null : { id: release_id, tag: facts.release.tag, app: app ?? "main" },
      ...summarize(facts, conditions, runs),
      conditions,
    };
  });
}

async function readFacts(
  tx: Db,
  caller: Caller,
  robot: ExplainedRobot,
  deployment: DeploymentRow,
): Promise<{ facts: ExplainFacts; runs: boolean }> {
  const { org_id } = caller;
  const app = deployment.app ?? "main";
  const target = await findTarget(tx, org_id, deployment.id, robot.id);
  // Without a target, the conditions are those of the target that the deployment would create.
  const subject = { id: target?.id ?? "", robot_id: robot.id, kind: "release" as const, subject: app };
  const release_id = target === undefined ? deployment.release_id : target.release_id;
  const follows = deployment.authority?.fleet_id !== undefined;
  const [open, last, releases, arch, apps, authorities, unwanted] = await Promise.all([
    listOpenTargets(tx, org_id, [robot.id], [subject.id]),
    lastOrderNumbers(tx, org_id, [subject]),
    listReleases(tx, org_id, release_id === null ? [] : [release_id]),
    findAgentArch(tx, org_id, deployment.release_id),
    listAppStates(tx, org_id, [robot.id], app),
    readAuthorities(tx, org_id, [deployment]),
    follows ? listUnwantedFollows(tx, org_id, [deployment.id]) : [],
  ]);
  const [release] = releases;
  const last_order_number = last(subject);
  const facts: ExplainFacts = {
    robot,
    deployment,
    target,
    release: { tag: release?.tag ?? deployment.release_id ?? "", arch },
    dispatch: {
      order_number: deployment.order_number,
      robot,
      release: release_id === null ? undefined : (release ?? "deleted"),
      rivals: rivalsOf(subject, open),
      last_order_number,
      denial: authorities.denialAt(deployment, robot) ?? unwanted[0]?.reason ?? null,
    },
    newer_deployment_id:
      last_order_number > deployment.order_number ? await findNewerDeploymentId(tx, caller, robot.id, last_order_number) : null,
    wave: deployment.rollout.waves === undefined || deployment.fan_out_done_at === null ? undefined : await waveFacts(tx, deployment),
    group: target === undefined ? undefined : await groupOf(tx, deployment, target),
    detail: target === undefined ? null : await findLastEventDetail(tx, org_id, deployment.id, robot.id),
  };
  return { facts, runs: release_id !== null && apps[0]?.current_release_id === release_id };
}

/** Returns the robot's group for the deployment's `max_unavailable`. Undefined if the deployment has no such limit. */
async function groupOf(tx: Db, { org_id, id, rollout }: DeploymentRow, target: TargetRow): Promise<ExplainFacts["group"]> {
  if (rollout.max_unavailable === undefined) return undefined;
  const { group_by } = rollout.max_unavailable;
  const [groups, [member]] = [await listGroups(tx, org_id, id, group_by), await listMembersOfGroups(tx, org_id, id, group_by, [target.id])];
  const group = groups.find(({ name }) => name === member?.name);
  return group === undefined || member === undefined ? undefined : { ...group, robot_unavailable: member.unavailable };
}
