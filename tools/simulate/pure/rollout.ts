import { assignWaves, nextStep, type WaveFacts, waveFactsOf } from "../../../packages/server/src/features/deployments/rollout/rules.ts";
import { wholeRollout } from "../../../packages/server/src/features/deployments/policy.ts";
import { isLimited } from "../../../packages/server/src/features/deployments/dispatch/slots.ts";
import { counterOf } from "../../../packages/server/src/features/deployments/state.ts";
import { EXPIRY_HOURS } from "../schedule.ts";
import { wakeSlots } from "./dispatch.ts";
import { type Deployment, newTarget, noCounts, type Target } from "./rows.ts";
import type { Tables } from "./tables.ts";

const HOUR_MS = 3_600_000;
const LOOK_EVERY_MS = 30_000;

export interface Member {
  robot_id: string;
  release_id: string | null;
}

/** Creates the targets of a deployment, in waves if it has any. */
export function fanOut(tables: Tables, deployment: Deployment, members: readonly Member[]): void {
  const { rollout } = deployment;
  const now = tables.now;
  deployment.fan_out_at = now;
  if (deployment.scheduled_at !== null) deployment.order_number = tables.drawOrderNumber();
  deployment.expires_at =
    rollout.expires_at === undefined ? new Date(now.getTime() + EXPIRY_HOURS * HOUR_MS) : new Date(rollout.expires_at);
  deployment.count_total = members.length;
  const in_waves = rollout.waves !== undefined;
  const targets = members.map(({ robot_id, release_id }) =>
    newTarget(
      {
        id: tables.id("tgt"),
        deployment_id: deployment.id,
        robot_id,
        subject: deployment.app ?? "main",
        release_id,
        status: in_waves ? "pending" : "queued",
        waiting_for: !in_waves && isLimited(deployment) ? "slot" : null,
      },
      now,
    ),
  );
  for (const target of targets) tables.targets.set(target.id, target);
  if (in_waves) deployment.count_pending = targets.length;
  else deployment.count_queued = targets.length;
  deployment.fan_out_done_at = now;
  if (targets.length === 0) return tables.say(deployment, "cancelled", "no_targets");
  if (in_waves) {
    assign(tables, deployment, targets);
    advance(tables, deployment);
  } else {
    if (isLimited(deployment)) deployment.step_at = now;
    wakeSlots(tables, deployment);
  }
}

function assign(tables: Tables, deployment: Deployment, targets: readonly Target[]): void {
  const waves = wholeRollout(deployment.rollout).waves ?? [];
  const of_target = assignWaves(
    targets.map(({ robot_id }) => ({ labels: tables.robots.get(robot_id)?.labels ?? {} })),
    waves,
  );
  targets.forEach((target, i) => (target.wave = of_target[i] ?? waves.length));
  const rest = of_target.some((wave) => wave === waves.length) ? 1 : 0;
  deployment.wave_count = waves.length + rest;
  deployment.waves = Array.from({ length: deployment.wave_count }, (_, wave) => ({ ...noCounts(), wave }));
  for (const target of targets) {
    const wave = deployment.waves[target.wave];
    if (wave !== undefined) wave[counterOf(target.status)] += 1;
  }
}

/** Performs the next step of a rollout, and sets the time of the following one. */
export function advance(tables: Tables, deployment: Deployment): void {
  deployment.step_at = null;
  if (deployment.cancel_requested_at !== null || deployment.rollback_requested_at !== null || deployment.fan_out_done_at === null) return;
  if (deployment.stop_requested_at !== null) return endWaiting(tables, deployment);
  const soak_until = deployment.rollout.waves === undefined ? null : advanceWaves(tables, deployment);
  if (deployment.paused_at === null) wakeSlots(tables, deployment);
  const look_at = new Date(tables.now.getTime() + LOOK_EVERY_MS);
  deployment.step_at = soak_until === null || soak_until > look_at ? look_at : soak_until;
}

function endWaiting(tables: Tables, deployment: Deployment): void {
  const waiting = tables.targetsOf(deployment.id).filter(({ status }) => status === "pending" || status === "queued");
  tables.revertDesiredState(waiting.filter(({ attempt }) => attempt > 0));
  tables.move(
    deployment,
    waiting.map((target) => ({ target: { ...target }, to: "cancelled", reason: "threshold_exceeded" })),
  );
  deployment.step_at = null;
}

function advanceWaves(tables: Tables, deployment: Deployment): Date | null {
  for (;;) {
    const step = nextStep(waveFacts(tables, deployment), tables.now);
    const own = tables.targetsOf(deployment.id).filter(({ wave }) => wave === deployment.current_wave);
    switch (step.do) {
      case "wait":
        return null;
      case "soak":
      case "await_data":
        return step.until;
      case "fail_gate":
        deployment.paused_at = tables.now;
        tables.say(deployment, "paused", "gate_failed");
        break;
      case "open":
        tables.move(
          deployment,
          own
            .filter(({ status }) => status === "pending")
            .map((target) => ({
              target: { ...target },
              to: "queued",
              reason: null,
              waiting_for: step.gated ? "gate" : isLimited(deployment) ? "slot" : null,
            })),
        );
        break;
      case "lift_gate":
        for (const target of own) if (target.waiting_for === "gate") target.waiting_for = isLimited(deployment) ? "slot" : null;
        break;
      case "pass":
      case "pass_again":
        deployment.wave_passed_at = step.do === "pass" ? tables.now : null;
        break;
      case "next":
        tables.version += 1;
        deployment.current_wave += 1;
        deployment.wave_passed_at = null;
    }
  }
}

/** The stored state of the latest started wave. */
export function waveFacts(tables: Tables, deployment: Deployment): WaveFacts {
  const { current_wave } = deployment;
  const counts = deployment.waves[current_wave] ?? noCounts();
  const queued = tables.targetsOf(deployment.id).filter(({ wave, status }) => wave === current_wave && status === "queued");
  return waveFactsOf(
    deployment,
    counts,
    {
      blocked: queued.filter(({ waiting_for }) => waiting_for !== "robot_online").length,
      gated: queued.filter(({ waiting_for }) => waiting_for === "gate").length,
    },
    [],
  );
}
