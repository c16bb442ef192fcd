import { type ConditionName, type ExplainedState, isTerminal, type Reason, type TargetStatus } from "@roamfleet/protocol";
import { wireTime } from "../../../kernel/time.ts";
import { nextWindow } from "../create/check-rollout.ts";
import { type Decision, obstaclesOf } from "../decide.ts";
import { REASON_TEXTS } from "../messages.ts";
import { wholeRollout } from "../policy.ts";
import { roomOf } from "../rollout/rules.ts";
import { isActive } from "../state.ts";
import { type Change, type Check, deployAgain, doing, type ExplainFacts, met, run, unknown, unmet } from "./facts.ts";
import { isGatePassed, isIncluded, isWaveOpen } from "./waves.ts";

export interface Condition {
  name: ConditionName;
  met: boolean | null;
  message: string;
  /** When an unmet condition is met without a change; null: unknown, or never. */
  until: string | null;
  change: Change | null;
}

/** What helps after an attempt that ended with this reason. The default is to deploy again. */
const AFTER: Partial<Record<Reason, string>> = {
  health_check_failed: "read the robot's log, fix the release or its health check, and deploy the fixed release",
  crash_loop: "read the robot's log, fix the release, and deploy the fixed release",
  digest_mismatch: "check the robot's disk and its connection, then retry",
  download_failed: "check the robot's connection, then retry",
  signature_invalid: "sign the release with a key that the robot trusts, and push it under a new tag",
  incompatible: "push the release in a kind, and for an architecture, that the robot can run",
  insufficient_disk: "free space on the robot, then retry",
  rejected_by_robot: "correct the release as the robot's log says, and push it under a new tag",
  timeout: "check that the robot reports, then retry",
  agent_lost: "check that the robot's agent runs, then retry",
  scope_lost: "let someone deploy it who is an operator of the robot's fleet",
  creator_removed: "let another operator deploy it",
  rollback_failed: "check the robot by hand: its previous version could not be restored",
};

/** How a target that has ended without installing the release can be tried again. */
function tryAgain(facts: ExplainFacts, status: TargetStatus, reason: Reason | null): Change {
  const { deployment } = facts;
  const message = reason === null ? undefined : AFTER[reason];
  if (status !== "cancelled" && isTerminal(deployment.status))
    return run(`rf deployments retry ${deployment.id}`, message ?? "deploy it again to the robots on which it failed");
  return { ...deployAgain(facts), ...(message === undefined ? {} : { message }) };
}

/** Whether dispatch would decide this about the target: to wait for `wanted`, or to end it for that reason. */
const isObstacle = ({ dispatch }: ExplainFacts, wanted: string): boolean =>
  obstaclesOf(dispatch).some((obstacle: Exclude<Decision, { dispatch: true }>) =>
    "wait" in obstacle ? obstacle.wait === wanted : obstacle.reason === wanted,
  );

/** Whether the robot has begun with the target, so that conditions of its dispatch no longer matter. */
const isBegun = ({ target }: ExplainFacts): boolean => target !== undefined && (isActive(target.status) || isTerminal(target.status));

/** Each condition with its check, which returns undefined if the condition does not apply to the deployment. */
const CHECKS: readonly (readonly [ConditionName, Check])[] = [
  [
    "robot_in_service",
    (facts) =>
      isObstacle(facts, "robot_removed")
        ? unmet("the robot is decommissioned", run("rf keys new", "enroll the machine as a new robot"))
        : met("the robot is in service"),
  ],
  ["included", isIncluded],
  [
    "not_superseded",
    (facts) =>
      isObstacle(facts, "superseded") || facts.target?.reason === "superseded"
        ? unmet(
            facts.newer_deployment_id === null
              ? "a newer deployment replaced this one on the robot"
              : `the newer deployment ${facts.newer_deployment_id} replaced this one on the robot`,
            deployAgain(facts),
          )
        : met("no newer deployment of the app was sent to the robot"),
  ],
  [
    "result",
    (facts) => {
      const { target, detail } = facts;
      if (target === undefined || !isTerminal(target.status) || target.reason === "superseded") return undefined;
      if (target.status === "applied") return met("the robot installed the release");
      const why = detail ?? (target.reason === null ? "" : REASON_TEXTS[target.reason]);
      const outcome = target.status === "rolled_back" ? "the robot returned to its previous version" : `the update was ${target.status}`;
      const said = target.status === "failed" ? "the update failed" : outcome;
      return unmet(why === "" ? said : `${said}: ${why}`, tryAgain(facts, target.status, target.reason));
    },
  ],
  [
    "started",
    ({ deployment: { status, scheduled_at, fan_out_done_at } }) => {
      if (status === "scheduled")
        return unmet(`the deployment starts at ${scheduled_at?.toISOString() ?? "a later time"}`, undefined, scheduled_at);
      if (fan_out_done_at === null) return isTerminal(status) ? undefined : unmet("the deployment's robots are still being listed");
      return met("the deployment has started");
    },
  ],
  [
    "not_stopped",
    (facts) => {
      const { deployment } = facts;
      if (deployment.cancel_requested_at !== null) return unmet("the deployment was cancelled", deployAgain(facts));
      if (deployment.rollback_requested_at !== null) return unmet("the deployment is being rolled back, or was", deployAgain(facts));
      if (deployment.stop_requested_at !== null)
        return unmet(
          "the deployment stopped: too many robots failed",
          run(`rf deployments retry ${deployment.id}`, "fix the cause, then retry"),
        );
      return isTerminal(deployment.status) ? undefined : met("the deployment was not cancelled, stopped or rolled back");
    },
  ],
  [
    "not_expired",
    (facts, now) => {
      const { expires_at, status } = facts.deployment;
      if (expires_at === null || isTerminal(status)) return undefined;
      return expires_at <= now
        ? unmet(`the deployment expired at ${expires_at.toISOString()}`, deployAgain(facts))
        : met(`the deployment expires at ${expires_at.toISOString()}`);
    },
  ],
  [
    "not_paused",
    ({ deployment: { id, paused_at, reason } }) =>
      paused_at === null
        ? met("the deployment is not paused")
        : unmet(
            `the deployment is paused${reason === null ? "" : `: ${REASON_TEXTS[reason]}`}`,
            run(`rf deployments resume ${id}`, "resume the deployment"),
          ),
  ],
  [
    "allowed",
    ({ dispatch: { denial = null } }) =>
      denial === null || denial === "superseded" || denial === "rollback_requested"
        ? met("the deployment's creator may deploy to the robot")
        : unmet(REASON_TEXTS[denial], doing(AFTER[denial] ?? "let another operator deploy it")),
  ],
  [
    "release_exists",
    (facts) =>
      facts.dispatch.release === "deleted" ? unmet("the release was deleted", doing("push the release again and deploy it")) : undefined,
  ],
  [
    "artifact",
    (facts) =>
      isObstacle(facts, "artifact")
        ? unmet(
            "the release's artifact was not uploaded",
            run(`rf releases push FILE --tag ${facts.release.tag}`, "push the release's file again; the upload continues where it stopped"),
          )
        : met("the release's artifact is stored"),
  ],
  ["wave", isWaveOpen],
  ["gate", isGatePassed],
  [
    "robot_admitted",
    ({ robot }) =>
      robot.quarantined
        ? unmet(
            "the robot is quarantined: several machines use its identity",
            run(`rf robots admit ${robot.id}`, "switch the copies off, then admit the robot"),
          )
        : met("the robot is not quarantined"),
  ],
  [
    "robot_online",
    (facts) => {
      if (!isObstacle(facts, "robot_online")) return met("the robot is connected");
      const { last_seen_at } = facts.robot;
      const since = last_seen_at === null ? "it never connected" : `it was last connected at ${last_seen_at.toISOString()}`;
      return unmet(
        `the robot is offline: ${since}`,
        doing("start the robot and its agent, or check its network; it gets the release when it connects"),
      );
    },
  ],
  [
    "kind",
    ({ dispatch: { robot, release } }) => {
      if (release === undefined || release === "deleted") return undefined;
      if (robot === undefined || robot.kinds.length === 0)
        return unknown("the robot has not yet reported which kinds of releases it installs");
      return robot.kinds.includes(release.kind)
        ? met(`the robot installs releases of kind ${release.kind}`)
        : unmet(
            `the robot cannot install releases of kind ${release.kind}`,
            doing(KIND_HELP[release.kind] ?? "push the release in a kind that the robot installs"),
          );
    },
  ],
  [
    "architecture",
    ({ robot: { arch }, release }) => {
      if (release.arch === null) return undefined;
      if (arch === null) return unknown("the robot has not yet reported its architecture");
      return arch === release.arch
        ? met(`the release is for the robot's architecture, ${arch}`)
        : unmet(`the release is for ${release.arch}, and the robot is ${arch}`, doing(`push a release for ${arch}`));
    },
  ],
  [
    "previous_deployment",
    (facts) =>
      isObstacle(facts, "previous_deployment")
        ? unmet("the robot is still installing an earlier deployment of the app")
        : met("the robot installs nothing else for the app"),
  ],
  [
    "max_parallel",
    (facts) => {
      const { max_parallel } = wholeRollout(facts.deployment.rollout);
      if (max_parallel === null || isBegun(facts)) return undefined;
      return facts.deployment.count_active < max_parallel
        ? met(`fewer than ${max_parallel} robots are updating at once`)
        : unmet(`${facts.deployment.count_active} robots are updating, and the deployment allows ${max_parallel} at once`);
    },
  ],
  [
    "max_unavailable",
    (facts) => {
      const { max_unavailable } = wholeRollout(facts.deployment.rollout);
      if (max_unavailable === null || facts.group === undefined || isBegun(facts)) return undefined;
      return roomOf(facts.group, max_unavailable) + (facts.group.robot_unavailable ? 1 : 0) > 0
        ? met("enough robots of its group are available")
        : unmet(
            `${facts.group.unavailable} of the ${facts.group.size} robots of its group are offline, failing or updating, and no more may be`,
            doing("bring unavailable robots of its group back, or deploy without max_unavailable"),
          );
    },
  ],
  [
    "attempt",
    ({ target }, now) => {
      if (target === undefined || target.attempt === 0 || target.status !== "queued") return undefined;
      return target.not_before_at !== null && target.not_before_at > now
        ? unmet(`attempt ${target.attempt} failed, and the next one starts later`, undefined, target.not_before_at)
        : met("the time until the next attempt is over");
    },
  ],
  [
    "window",
    (facts, now) => {
      const { window } = facts.deployment.rollout;
      if (window === undefined || isCommittedTo(facts)) return undefined;
      const next = nextWindow(window, now);
      if (next === null) return unmet("the maintenance window never opens again", deployAgain(facts));
      return next.opens_at <= now
        ? met(`the maintenance window is open until ${next.closes_at.toISOString()}`)
        : unmet("the maintenance window is closed", undefined, next.opens_at);
    },
  ],
  [
    "robot_allows",
    ({ target }) =>
      target?.waiting_for === "robot"
        ? unmet(
            "the robot has downloaded the release and does not allow the update yet: its update lock is taken, or its check before updates says no",
            doing("on the robot: rf-agent status names the reason; rf-agent unlock --force releases the lock"),
          )
        : unknown("the robot decides about its update lock when it has downloaded the release"),
  ],
];

const KIND_HELP: Partial<Record<string, string>> = {
  container_image: "install a container engine on the robot, or push the release as an app bundle",
  os_image: "configure how the robot installs OS images",
};

/** Whether the robot has begun to install, so that no condition holds it back. */
const isCommittedTo = ({ target }: ExplainFacts): boolean =>
  target !== undefined && (isTerminal(target.status) || ["installing", "verifying", "rolling_back"].includes(target.status));

/** Returns the conditions that apply to the robot and the deployment, in a fixed order. Pure. */
export const conditionsOf = (facts: ExplainFacts, now: Date): Condition[] =>
  CHECKS.flatMap(([name, check]): Condition[] => {
    const found = check(facts, now);
    if (found === undefined) return [];
    const more =
      found.met === false ? { until: wireTime(found.until ?? null), change: found.change ?? null } : { until: null, change: null };
    return [{ name, met: found.met, message: found.message, ...more }];
  });

/**
 * Returns the state of the robot, and a sentence that names what it waits for. `runs`: whether the robot runs the deployment's release now.
 * Pure.
 */
export function summarize(
  { release, target }: Pick<ExplainFacts, "release" | "target">,
  conditions: readonly Condition[],
  runs: boolean,
): { state: ExplainedState; summary: string } {
  if (runs) return { state: "installed", summary: `the robot runs ${release.tag}` };
  const [first, ...others] = conditions.filter((condition) => condition.met === false);
  if (first === undefined)
    return target?.status === "applied"
      ? { state: "blocked", summary: `the robot installed ${release.tag} and runs something else now` }
      : { state: "installing", summary: `nothing keeps the robot from installing ${release.tag}` };
  const waits = [first, ...others].every(({ until, change }) => until !== null || change === null);
  const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
  return { state: waits ? "waiting" : "blocked", summary: `${first.message}${more}` };
}
