import type { ConfigDeployment, Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { durationText, shellLine } from "../../ui/format.ts";
import type { Tone } from "../../ui/status.tsx";
import { isConfigDeployment, whatOf } from "./deployment-kind.ts";
import { amountText, endAdvice, reasonAdvice, reasonText, robots } from "./deployment-text.ts";

export type StepName = "pause" | "resume" | "promote" | "cancel" | "cancel_rollback" | "rollback" | "retry";

/** An action on a deployment. */
export interface Step {
  name: StepName;
  /** The text of the button that starts the action. */
  label: string;
  title: string;
  /** The effect of the action, for the confirmation dialog. */
  consequence: string;
  /** The text of the button that confirms the action. */
  verb: string;
  danger: boolean;
  command: string;
  /** Why the action is not available now; undefined if it is. */
  why_not: string | undefined;
}

const ENDED: ReadonlySet<string> = new Set(["applied", "failed", "rolled_back", "cancelled"]);
const ENDED_TEXT = "The deployment has ended.";
const CANCELLING_TEXT = "The deployment is being cancelled.";
const ROLLING_BACK_TEXT = "The deployment is being rolled back.";
export const hasEnded = (status: string): boolean => ENDED.has(status);

type Facts = Pick<ConfigDeployment, "id" | "status" | "counts" | "wave" | "wave_count" | "reason"> &
  Partial<Pick<Deployment, "rollback_of">>;

/**
 * Returns all actions with their effects, from the deployment's current counts. A config deployment has no rollback and no retry. Pure.
 */
export function stepsOf(deployment: Facts, waves: readonly DeploymentWave[], now_ms: number): Step[] {
  return [
    pause(deployment),
    resume(deployment),
    promote(deployment, waves, now_ms),
    cancel(deployment),
    ...(isConfigDeployment(deployment.id) ? [] : [cancelAndRollBack(deployment), rollBack(deployment), retry(deployment)]),
  ];
}

const waitingCount = ({ counts }: Facts): number => counts.pending + counts.queued;
const be = (count: number, rest: string, rest_of_one = rest): string => `${robots(count)} ${count === 1 ? rest_of_one : rest}`;
const sentences = (...parts: (string | false)[]): string => parts.filter((part) => part !== false).join(" ");
const line = (command: string, id: string, ...flags: string[]): string =>
  shellLine("rf", isConfigDeployment(id) ? "configs" : "deployments", command, id, ...flags);

/** Returns why an action that requires a running deployment is not available; undefined if it is. */
function notRunning(status: string): string | undefined {
  if (hasEnded(status)) return ENDED_TEXT;
  if (status === "scheduled") return "The deployment has not started: cancel it instead.";
  if (status === "cancelling") return CANCELLING_TEXT;
  if (status === "rolling_back") return ROLLING_BACK_TEXT;
  return undefined;
}

function pause(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  const waiting = waitingCount(deployment);
  return {
    name: "pause",
    label: "Pause",
    title: "Pause deployment?",
    consequence: sentences(
      counts.active > 0 && be(counts.active, "are updating and will finish.", "is updating and will finish."),
      be(waiting, "wait until the deployment is resumed.", "waits until the deployment is resumed."),
      "Soak times and the expiry keep running.",
    ),
    verb: "Pause",
    danger: false,
    command: line("pause", id),
    why_not: notRunning(status) ?? (status === "paused" ? "The deployment is already paused." : undefined),
  };
}

function resume(deployment: Facts): Step {
  const { id, status, reason, counts } = deployment;
  const failures = counts.failed + counts.rolled_back;
  return {
    name: "resume",
    label: "Resume",
    title: "Resume deployment?",
    consequence: sentences(
      `${be(waitingCount(deployment), "continue", "continues")} as the policy allows.`,
      reason === "threshold_exceeded" &&
        `The ${failures === 1 ? "failure" : `${failures.toLocaleString("en")} failures`} so far ${failures === 1 ? "is" : "are"} accepted: the next failure stops the deployment again.`,
      reason === "gate_failed" && "What the gate found so far is accepted.",
    ),
    verb: "Resume",
    danger: false,
    command: line("resume", id),
    why_not: status === "paused" ? undefined : hasEnded(status) ? ENDED_TEXT : "The deployment is not paused.",
  };
}

function promote(deployment: Facts, waves: readonly DeploymentWave[], now_ms: number): Step {
  const { id, wave_count } = deployment;
  const gate = waves.find((wave) => wave.status === "gate");
  const soaking = waves.find((wave) => wave.status === "soaking");
  const next = gate ?? waves.find(({ wave }) => wave === (soaking?.wave ?? -2) + 1);
  const left = soaking?.soaks_until == null ? 0 : Math.max(0, (Date.parse(soaking.soaks_until) - now_ms) / 1_000);
  return {
    name: "promote",
    label: "Promote",
    title: next === undefined ? "Open the next wave now?" : `Open wave ${next.wave + 1} of ${wave_count} now?`,
    consequence: sentences(
      next !== undefined && be(next.total, "can start immediately."),
      left > 0 && `Skips ${durationText(left)} of soak time.`,
      gate !== undefined && "This is the manual promotion that the policy requires.",
    ),
    verb: next === undefined ? "Promote" : `Open wave ${next.wave + 1}`,
    danger: false,
    command: line("promote", id),
    why_not: cannotPromote(deployment, waves, next),
  };
}

function cannotPromote(
  { status, wave_count }: Facts,
  waves: readonly DeploymentWave[],
  next: DeploymentWave | undefined,
): string | undefined {
  if (status === "paused") return "The deployment is paused: resume it first.";
  const stopped = notRunning(status);
  if (stopped !== undefined) return stopped;
  if (wave_count <= 1) return "The deployment has no waves.";
  if (waves.length === 0) return "The waves are not loaded.";
  if (next !== undefined) return undefined;
  const open = waves.findLast((wave) => wave.status === "open");
  if (open === undefined || open.wave + 1 === waves.length) return "This is the last wave.";
  const busy = open.active;
  return busy > 0
    ? `Wave ${open.wave + 1} is not complete: ${be(busy, "have not finished", "has not finished")}.`
    : `Wave ${open.wave + 1} is not complete: none of its robots has finished yet.`;
}

function cancel(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  const is_config = isConfigDeployment(id);
  return {
    name: "cancel",
    label: status === "scheduled" || is_config ? "Cancel" : "Cancel and let installing robots finish",
    title: "Cancel deployment?",
    consequence:
      status === "scheduled"
        ? "The deployment will not start."
        : sentences(
            be(waitingCount(deployment), `will not receive the ${whatOf(id)}.`),
            counts.active > 0 &&
              (is_config
                ? be(counts.active, "are updating and will finish.", "is updating and will finish.")
                : be(
                    counts.active,
                    "are updating: those that have not started to install stop, the others finish.",
                    "is updating: it stops if it has not started to install; otherwise it finishes.",
                  )),
            counts.applied > 0 && be(counts.applied, `keep the new ${whatOf(id)}.`, `keeps the new ${whatOf(id)}.`),
            "This cannot be undone.",
          ),
    verb: "Cancel deployment",
    danger: true,
    command: line("cancel", id),
    why_not: hasEnded(status)
      ? ENDED_TEXT
      : status === "cancelling"
        ? CANCELLING_TEXT
        : status === "rolling_back"
          ? ROLLING_BACK_TEXT
          : undefined,
  };
}

function cancelAndRollBack(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  return {
    name: "cancel_rollback",
    label: "Cancel and roll back installing robots",
    title: "Cancel and roll back installing robots?",
    consequence: sentences(
      be(waitingCount(deployment), "will not receive the release."),
      counts.active > 0 &&
        be(
          counts.active,
          "are updating: those that have not started to install stop, the others finish and then roll back.",
          "is updating: it stops if it has not started to install; otherwise it finishes and then rolls back.",
        ),
      counts.applied > 0 &&
        `${be(counts.applied, "keep the new release", "keeps the new release")}: to revert them as well, use "Roll back" instead.`,
    ),
    verb: "Cancel and roll back",
    danger: true,
    command: line("cancel", id, "--rollback"),
    why_not: hasEnded(status)
      ? ENDED_TEXT
      : status === "scheduled"
        ? "The deployment has not started: no robot is installing."
        : status === "rolling_back"
          ? ROLLING_BACK_TEXT
          : undefined,
  };
}

function rollBack(deployment: Facts): Step {
  const { id, status, counts, rollback_of } = deployment;
  const is_over = hasEnded(status);
  const forward =
    rollback_of == null ? "" : " This deployment is itself a rollback: robots return to the release that they ran before this rollback.";
  return {
    name: "rollback",
    label: "Roll back",
    title: "Roll back deployment?",
    consequence: is_over
      ? `A new deployment reverts up to ${be(counts.applied, "to their previous releases.", "to its previous release.")} Robots that now run a newer release are skipped.${forward}`
      : sentences(
          be(counts.applied, "roll back to their previous releases.", "rolls back to its previous release."),
          counts.active > 0 &&
            be(
              counts.active,
              "are updating: they stop, or finish and then roll back.",
              "is updating: it stops, or finishes and then rolls back.",
            ),
          `${be(waitingCount(deployment), "will not receive the release.")}${forward}`,
        ),
    verb: counts.applied > 0 ? `Roll back ${robots(counts.applied)}` : "Roll back",
    danger: true,
    command: line("rollback", id),
    why_not:
      status === "scheduled"
        ? "The deployment has not started: cancel it."
        : status === "cancelling"
          ? "The deployment is being cancelled: roll it back after it has ended."
          : status === "rolling_back"
            ? "The deployment is already being rolled back."
            : is_over && counts.applied === 0
              ? "No robot has received the release: there is nothing to roll back."
              : undefined,
  };
}

function retry({ id, status, counts }: Facts): Step {
  const failures = counts.failed + counts.rolled_back;
  return {
    name: "retry",
    label: "Retry",
    title: "Retry on failed robots?",
    consequence: `A new deployment installs the same release with the same policy on ${be(failures, "where it failed or was rolled back.")}`,
    verb: `Retry on ${robots(failures)}`,
    danger: false,
    command: line("retry", id),
    why_not: !hasEnded(status) ? "The deployment has not ended." : failures === 0 ? "No robot failed or was rolled back." : undefined,
  };
}

/** The state of a deployment in words. */
export interface Situation {
  tone: Tone;
  text: string;
  /** A suggested next step. */
  advice?: string | undefined;
  /** The incident to look at. */
  incident_id?: string | undefined;
  /** When the deployment continues or starts, as RFC 3339. */
  until?: string | undefined;
  /** True: at `until` the deployment starts. Otherwise it continues. */
  starts?: boolean;
}

export type SituationFacts = Pick<ConfigDeployment, "id" | "status" | "reason" | "counts" | "scheduled_at" | "wave_count" | "rollout">;

/** Describes what a deployment waits for, or why it ended. Pure. */
export function situationOf(deployment: SituationFacts, waves: readonly DeploymentWave[]): Situation {
  const { status, reason, counts, scheduled_at } = deployment;
  const why = reason === null ? "" : `: ${reason === "threshold_exceeded" ? failuresText(deployment) : reasonText(reason)}`;
  switch (status) {
    case "scheduled":
      return { tone: "info", text: "Scheduled.", until: scheduled_at ?? undefined, starts: true };
    case "paused":
      if (reason === "gate_failed") return gateFailed(counts, waves);
      return {
        tone: "warn",
        text: `Paused${why}. ${counts.active > 0 ? `${robots(counts.active)} finishing; remaining` : "Remaining"} robots on hold.`,
        advice: reason === "threshold_exceeded" ? failedAdvice(deployment.id) : "Resume to continue.",
      };
    case "cancelling":
      return { tone: "idle", text: `Cancelling: ${robots(counts.active)} finishing.` };
    case "rolling_back":
      return {
        tone: "warn",
        text: `Rolling back${why}: ${robots(counts.applied + counts.active)} remaining.`,
      };
    case "queued":
    case "in_progress":
      return running(deployment, waves);
    case "applied":
      return { tone: "ok", text: appliedText(counts) };
    default:
      return {
        tone: status === "failed" ? "bad" : status === "rolled_back" ? "warn" : "idle",
        text: `${ENDINGS[status]}${why}.`,
        advice: endAdvice(reason, counts.failed + counts.rolled_back > 0 && !isConfigDeployment(deployment.id)),
      };
  }
}

const failedAdvice = (id: string): string =>
  isConfigDeployment(id)
    ? "Check why the robots failed, then resume or cancel."
    : "Check why the robots failed, then resume, roll back or cancel.";

/** The check that fails or, while none fails, the one that waits for data. */
const openCheckOf = (waves: readonly DeploymentWave[]): DeploymentWave["gate_checks"][number] | undefined => {
  const checks = waves.flatMap(({ gate_checks }) => gate_checks);
  return checks.find(({ state }) => state === "failing") ?? checks.find(({ state }) => state === "waiting");
};

function gateFailed({ active }: SituationFacts["counts"], waves: readonly DeploymentWave[]): Situation {
  const check = openCheckOf(waves);
  return {
    tone: "warn",
    text: `Paused: ${reasonText("gate_failed")}${check === undefined ? "" : `: ${check.message}`}. ${active > 0 ? `${robots(active)} finishing; remaining` : "Remaining"} robots on hold.`,
    advice: reasonAdvice("gate_failed"),
    incident_id: check?.incident_id ?? undefined,
  };
}

const ENDINGS = { failed: "Failed", rolled_back: "Rolled back", cancelled: "Cancelled" } as const;

/** Formats "10 of 60 robots failed (limit 12%)". The total (60) contains only robots that applied the release or failed. */
function failuresText({ counts, rollout }: Pick<SituationFacts, "counts" | "rollout">): string {
  const failures = counts.failed + counts.rolled_back;
  const limit = rollout.failure_threshold == null ? "none allowed" : `limit ${amountText(rollout.failure_threshold)}`;
  return `${failures.toLocaleString("en")} of ${robots(counts.applied + failures)} failed (${limit})`;
}

function appliedText({ applied, total, failed, rolled_back, cancelled }: SituationFacts["counts"]): string {
  const failures = failed + rolled_back;
  const parts = [
    applied === total ? `Applied on ${robots(applied)}.` : `Applied on ${applied.toLocaleString("en")} of ${robots(total)}.`,
    failures > 0 && `${failures.toLocaleString("en")} failed (within policy).`,
    cancelled > 0 && `${cancelled.toLocaleString("en")} cancelled.`,
  ];
  return parts.filter((part) => part !== false).join(" ");
}

function running(deployment: SituationFacts, waves: readonly DeploymentWave[]): Situation {
  const { id, counts, reason, rollout } = deployment;
  if (reason === "threshold_exceeded")
    return { tone: "bad", text: `Stopped: ${failuresText(deployment)}. ${robots(counts.active)} finishing.` };
  const gate = waves.find(({ status }) => status === "gate");
  if (gate !== undefined)
    return {
      tone: "warn",
      text: `Wave ${gate.wave + 1} of ${waves.length} is awaiting promotion.`,
      advice: "Check the updated robots, then promote.",
    };
  const soaking = waves.find(({ status }) => status === "soaking");
  if (soaking !== undefined)
    return {
      tone: "info",
      text: `Wave ${soaking.wave + 1} of ${waves.length} is complete and soaking.`,
      ...(soaking.gate_checks.length === 0
        ? {}
        : { advice: soaking.gate_checks.map(({ message, state }) => `Gate ${state}: ${message}.`).join(" ") }),
      until: soaking.soaks_until ?? undefined,
    };
  if (counts.total === 0) return { tone: "info", text: "Selecting robots." };
  const open = waves.length > 1 ? waves.findLast(({ status }) => status === "open") : undefined;
  const name = open === undefined ? "" : `Wave ${open.wave + 1} of ${waves.length}: `;
  const { active, queued } = open ?? counts;
  const offline = open?.offline ?? waves.reduce((sum, wave) => sum + wave.offline, 0);
  if (active === 0 && queued > 0 && offline >= queued)
    return {
      tone: "warn",
      text: `${name}${be(queued, `are offline and get the ${whatOf(id)} when they connect.`, `is offline and gets the ${whatOf(id)} when it connects.`)}`,
    };
  const waiting = offline > 0 ? `queued, ${offline.toLocaleString("en")} of them offline` : "queued";
  if (active === 0 && queued > 0)
    return {
      tone: "info",
      text: `${name}${robots(queued)} ${waiting}.`,
      advice:
        rollout.window === null
          ? "The table shows why each robot is waiting."
          : "The table shows why each robot is waiting, for example for its maintenance window.",
    };
  return {
    tone: "info",
    text: `${name}${robots(active)} updating${queued > 0 ? `, ${queued.toLocaleString("en")} ${waiting}` : ""}.`,
  };
}
