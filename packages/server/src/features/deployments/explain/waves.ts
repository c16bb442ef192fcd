import { isTerminal } from "@roamfleet/protocol";
import { isGateOpen, nextStep } from "../rollout/rules.ts";
import { type Check, deployAgain, doing, met, run, unknown, unmet } from "./facts.ts";

const waveName = (number: number): string => `wave ${number + 1}`;

export const isIncluded: Check = (facts) => {
  const { robot, deployment, target, release } = facts;
  if (target !== undefined) return met("the deployment includes the robot");
  if (deployment.target_kind === "robot")
    return deployment.robot_id === robot.id
      ? unknown("the deployment includes the robot when it starts")
      : unmet("the deployment is for another robot", deployAgain(facts));
  if (deployment.target_kind === "selection")
    return deployment.fan_out_done_at === null
      ? unknown("the deployment includes the robot when it starts, if its selection matches the robot then")
      : unmet("the selection of the deployment did not match the robot when it started", deployAgain(facts));
  if (deployment.fleet_id !== robot.fleet_id)
    return unmet("the deployment is for a fleet that the robot does not belong to", deployAgain(facts));
  if (release.arch !== null && release.arch !== robot.arch)
    return unmet(
      `the deployment includes only robots with architecture ${release.arch}`,
      doing(`deploy a release for ${robot.arch ?? "the robot's architecture"}`),
    );
  if (deployment.fan_out_done_at === null)
    return unknown("the deployment includes the robot when it starts, if it still belongs to the fleet");
  return unmet("the robot joined the fleet after the deployment had started", deployAgain(facts));
};

/** Explains a target whose wave is not open by the next step of the rollout. */
export const isWaveOpen: Check = (facts, now) => {
  const { target, wave, deployment } = facts;
  if (deployment.rollout.waves === undefined || target === undefined || isTerminal(target.status)) return undefined;
  if (target.status !== "pending") return met(`its wave, ${waveName(target.wave)} of ${deployment.wave_count}, is open`);
  if (wave === undefined) return unmet("robots are still being assigned to waves");
  const place = `the robot is in ${waveName(target.wave)}, and ${waveName(wave.wave)} of ${wave.wave_count} is open`;
  // While the deployment is paused, its waves stay as they are: resuming it is the change, and `not_paused` names it.
  const step = nextStep({ ...wave, paused: false }, now);
  if (step.do === "soak")
    return unmet(
      `${place}: it soaks until ${step.until.toISOString()}`,
      run(`rf deployments promote ${deployment.id}`, "start the next wave now"),
      target.wave === wave.wave + 1 ? step.until : null,
    );
  if (step.do === "await_data")
    return unmet(
      `${place}: it waits for data of its gate: ${step.check.message}`,
      run(`rf deployments promote ${deployment.id}`, "start the next wave without the data"),
    );
  if (step.do === "fail_gate")
    return unmet(
      `${place}: ${step.message}`,
      deployment.paused_at === null ? undefined : run(`rf deployments resume ${deployment.id}`, "accept it and continue"),
    );
  // The gate alone keeps the wave closed: `gate` names it.
  if (step.do === "next" && target.wave === wave.wave + 1) return met(`${waveName(wave.wave)} has passed`);
  const left = wave.pending + wave.active + wave.queued;
  return unmet(left === 0 ? place : `${place}: ${left} of its robots have not finished`);
};

export const isGatePassed: Check = ({ target, wave, deployment }, now) => {
  if (wave === undefined || target === undefined || isTerminal(target.status)) return undefined;
  const closed = (number: number) =>
    unmet(
      `${waveName(number)} waits until someone promotes the deployment`,
      run(`rf deployments promote ${deployment.id}`, "promote the deployment to its next wave"),
    );
  if (target.waiting_for === "gate") return closed(target.wave);
  if (target.status !== "pending") return undefined;
  // The open wave itself may wait for the gate before it.
  if (wave.gated > 0 && !isGateOpen(wave)) return closed(wave.wave);
  const step = nextStep({ ...wave, paused: false }, now);
  return step.do === "next" && step.gated ? closed(wave.wave + 1) : undefined;
};
