import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { shellLine } from "../../ui/shell-text.ts";
import { durationText } from "../../ui/format.ts";
import { robots } from "./rollout-text.ts";

export type StepName = "pause" | "resume" | "promote" | "cancel" | "cancel_rollback" | "rollback" | "retry";

/** What can be asked of a deployment. */
export interface Step {
  name: StepName;
  /** On its button. */
  label: string;
  title: string;
  /** What will be so afterwards. */
  consequence: string;
  /** On the button of the question. */
  verb: string;
  danger: boolean;
  command: string;
  /** Why it makes no sense now; undefined: it does. */
  why_not: string | undefined;
}

const ENDED: ReadonlySet<string> = new Set(["applied", "failed", "rolled_back", "cancelled"]);
export const hasEnded = (status: string): boolean => ENDED.has(status);

type Facts = Pick<Deployment, "id" | "status" | "counts" | "wave" | "wave_count" | "reason" | "rollback_of">;

/** Each step with what follows from it, by the numbers of now. Pure. */
export function stepsOf(deployment: Facts, waves: readonly DeploymentWave[], now_ms: number): Step[] {
  return [
    pause(deployment),
    resume(deployment),
    promote(deployment, waves, now_ms),
    cancel(deployment),
    cancelAndGoBack(deployment),
    rollBack(deployment),
    retry(deployment),
  ];
}

const waitingCount = ({ counts }: Facts): number => counts.pending + counts.queued;
const be = (count: number, rest: string, rest_of_one = rest): string => `${robots(count)} ${count === 1 ? rest_of_one : rest}`;
const sentences = (...parts: (string | false)[]): string => parts.filter((part) => part !== false).join(" ");
const line = (command: string, id: string, ...flags: string[]): string => shellLine("rf", "deployments", command, id, ...flags);

/** Why a step that needs a running deployment cannot be taken. */
function notRunning(status: string, what: string): string | undefined {
  if (hasEnded(status)) return "It has ended.";
  if (status === "scheduled") return `It has not started: cancel it instead of ${what}.`;
  if (status === "cancelling") return "It is being cancelled.";
  if (status === "rolling_back") return "It is being rolled back.";
  return undefined;
}

function pause(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  const waiting = waitingCount(deployment);
  return {
    name: "pause",
    label: "Pause",
    title: "Pause this deployment?",
    consequence: sentences(
      counts.active > 0 && be(counts.active, "have it in hand and finish.", "has it in hand and finishes."),
      `${be(waiting, "wait and get nothing", "waits and gets nothing")} until somebody resumes it.`,
      "Soak times and its expiry go on.",
    ),
    verb: "Pause",
    danger: false,
    command: line("pause", id),
    why_not: notRunning(status, "pausing it") ?? (status === "paused" ? "It is paused already." : undefined),
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
      `${be(waitingCount(deployment), "get it", "gets it")} as its policy says.`,
      reason === "threshold_exceeded" &&
        `The ${failures === 1 ? "failure" : `${failures.toLocaleString("en")} failures`} so far ${failures === 1 ? "is" : "are"} accepted: the next failure stops it again.`,
    ),
    verb: "Resume",
    danger: false,
    command: line("resume", id),
    why_not: status === "paused" ? undefined : hasEnded(status) ? "It has ended." : "It is not paused.",
  };
}

function promote(deployment: Facts, waves: readonly DeploymentWave[], now_ms: number): Step {
  const { id, status, wave_count } = deployment;
  const gate = waves.find((wave) => wave.status === "gate");
  const soaking = waves.find((wave) => wave.status === "soaking");
  const next = gate ?? waves.find(({ wave }) => wave === (soaking?.wave ?? -2) + 1);
  const left = soaking?.soaks_until == null ? 0 : Math.max(0, (Date.parse(soaking.soaks_until) - now_ms) / 1_000);
  return {
    name: "promote",
    label: "Promote",
    title: next === undefined ? "Open the next wave now?" : `Open wave ${next.wave + 1} of ${wave_count} now?`,
    consequence: sentences(
      next !== undefined && be(next.total, "of it may begin at once."),
      left > 0 && `${durationText(left)} of the soak time are skipped.`,
      gate !== undefined && "Its gate is opened.",
    ),
    verb: next === undefined ? "Promote" : `Open wave ${next.wave + 1}`,
    danger: false,
    command: line("promote", id),
    why_not: cannotPromote(status, waves, next),
  };
}

function cannotPromote(status: string, waves: readonly DeploymentWave[], next: DeploymentWave | undefined): string | undefined {
  if (status === "paused") return "It is paused: resume it first.";
  const stopped = notRunning(status, "promoting it");
  if (stopped !== undefined) return stopped;
  if (waves.length <= 1) return "It has no waves.";
  if (next !== undefined) return undefined;
  const open = waves.findLast((wave) => wave.status === "open");
  if (open === undefined || open.wave + 1 === waves.length) return "It is in its last wave.";
  const busy = open.active;
  return busy > 0
    ? `Wave ${open.wave + 1} has not passed: ${be(busy, "are not done", "is not done")}.`
    : `Wave ${open.wave + 1} has not passed: none of its robots has ended yet.`;
}

function cancel(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  return {
    name: "cancel",
    label: status === "scheduled" ? "Cancel" : "Cancel, let them finish",
    title: "Cancel this deployment?",
    consequence:
      status === "scheduled"
        ? "It never starts."
        : sentences(
            `${be(waitingCount(deployment), "never get it", "never gets it")}.`,
            counts.active > 0 &&
              be(
                counts.active,
                "are at it: those that have not begun to install stop, the others finish.",
                "is at it: it stops if it has not begun to install, else it finishes.",
              ),
            counts.applied > 0 && be(counts.applied, "have it and keep it.", "has it and keeps it."),
            "That cannot be taken back.",
          ),
    verb: "Cancel the deployment",
    danger: true,
    command: line("cancel", id),
    why_not: hasEnded(status)
      ? "It has ended."
      : status === "cancelling"
        ? "It is being cancelled."
        : status === "rolling_back"
          ? "It is being rolled back."
          : undefined,
  };
}

function cancelAndGoBack(deployment: Facts): Step {
  const { id, status, counts } = deployment;
  return {
    name: "cancel_rollback",
    label: "Cancel, those installing go back",
    title: "Cancel, and let those that install go back?",
    consequence: sentences(
      `${be(waitingCount(deployment), "never get it", "never gets it")}.`,
      counts.active > 0 &&
        be(
          counts.active,
          "are at it: those that have not begun to install stop, the others go back to what they ran once they are done.",
          "is at it: it stops, or goes back to what it ran once it is done.",
        ),
      counts.applied > 0 &&
        `${be(counts.applied, "have it and keep it", "has it and keeps it")}: to bring them back, too, roll back instead.`,
    ),
    verb: "Cancel and go back",
    danger: true,
    command: line("cancel", id, "--rollback"),
    why_not: hasEnded(status)
      ? "It has ended."
      : status === "scheduled"
        ? "It has not started: nobody installs."
        : status === "rolling_back"
          ? "It is being rolled back."
          : undefined,
  };
}

function rollBack(deployment: Facts): Step {
  const { id, status, counts, rollback_of } = deployment;
  const is_over = hasEnded(status);
  const forward = rollback_of === null ? "" : " It was a rollback itself: they come forward again.";
  return {
    name: "rollback",
    label: "Roll back",
    title: is_over ? "Roll this deployment back?" : "Turn this deployment round?",
    consequence: is_over
      ? `A new deployment brings up to ${be(counts.applied, "that have it back to what each of them ran before.", "that has it back to what it ran before.")} Those that run something newer meanwhile are left alone.${forward}`
      : sentences(
          be(counts.applied, "have it and go back to what each of them ran before.", "has it and goes back to what it ran before."),
          counts.active > 0 &&
            be(counts.active, "are at it: they stop, or go back once they are done.", "is at it: it stops, or goes back once it is done."),
          `${be(waitingCount(deployment), "never get it", "never gets it")}.${forward}`,
        ),
    verb: counts.applied > 0 ? `Roll back ${robots(counts.applied)}` : "Roll back",
    danger: true,
    command: line("rollback", id),
    why_not:
      status === "scheduled"
        ? "It has not started: cancel it."
        : status === "cancelling"
          ? "It is being cancelled: roll it back when it has ended."
          : status === "rolling_back"
            ? "It is being rolled back already."
            : is_over && counts.applied === 0
              ? "No robot got it: there is nothing to go back from."
              : undefined,
  };
}

function retry({ id, status, counts }: Facts): Step {
  const failures = counts.failed + counts.rolled_back;
  return {
    name: "retry",
    label: "Retry",
    title: "Deploy to those that failed again?",
    consequence: `A new deployment brings the same release, by the same policy, to ${be(failures, "on which it failed or was rolled back.", "on which it failed or was rolled back.")}`,
    verb: `Retry on ${robots(failures)}`,
    danger: false,
    command: line("retry", id),
    why_not: !hasEnded(status) ? "It has not ended." : failures === 0 ? "No robot failed or was rolled back." : undefined,
  };
}
