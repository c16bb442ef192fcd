import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import type { Tone } from "../../ui/status.tsx";
import { reasonAdvice, reasonText } from "./reasons.ts";
import { amountText, robots } from "./rollout-text.ts";

/** The state of a deployment in words. */
export interface Situation {
  tone: Tone;
  text: string;
  /** A suggested next step. */
  advice?: string | undefined;
  /** When it continues, as RFC 3339. */
  until?: string | undefined;
}

type Facts = Pick<Deployment, "status" | "reason" | "counts" | "scheduled_at" | "wave_count" | "rollout">;

/** Describes what a deployment waits for, or why it ended. Pure. */
export function situationOf(deployment: Facts, waves: readonly DeploymentWave[]): Situation {
  const { status, reason, counts, scheduled_at } = deployment;
  const why = reason === null ? "" : `: ${reason === "threshold_exceeded" ? failuresText(deployment) : reasonText(reason)}`;
  switch (status) {
    case "scheduled":
      return { tone: "info", text: "Scheduled.", until: scheduled_at ?? undefined };
    case "paused":
      return {
        tone: "warn",
        text: `Paused${why}. ${counts.active > 0 ? `${robots(counts.active)} finishing; remaining` : "Remaining"} robots on hold.`,
        advice: reason === "threshold_exceeded" ? "Check why the robots failed, then resume, roll back or cancel." : "Resume to continue.",
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
        advice: reason === null ? undefined : reasonAdvice(reason),
      };
  }
}

const ENDINGS = { failed: "Failed", rolled_back: "Rolled back", cancelled: "Cancelled" } as const;

/** "10 of 60 robots failed (limit 12%)": of the robots that have finished. */
function failuresText({ counts, rollout }: Pick<Facts, "counts" | "rollout">): string {
  const failures = counts.failed + counts.rolled_back;
  const limit = rollout.failure_threshold == null ? "none allowed" : `limit ${amountText(rollout.failure_threshold)}`;
  return `${failures.toLocaleString("en")} of ${robots(counts.applied + failures)} failed (${limit})`;
}

function appliedText({ applied, total, failed, rolled_back, cancelled }: Facts["counts"]): string {
  const failures = failed + rolled_back;
  const parts = [
    applied === total ? `Applied on ${robots(applied)}.` : `Applied on ${applied.toLocaleString("en")} of ${robots(total)}.`,
    failures > 0 && `${failures.toLocaleString("en")} failed (within policy).`,
    cancelled > 0 && `${cancelled.toLocaleString("en")} cancelled.`,
  ];
  return parts.filter((part) => part !== false).join(" ");
}

function running(deployment: Facts, waves: readonly DeploymentWave[]): Situation {
  const { counts, reason, rollout } = deployment;
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
      text: `${name}${robots(queued)} ${queued === 1 ? "is" : "are"} offline and ${queued === 1 ? "gets" : "get"} the release on connecting.`,
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
