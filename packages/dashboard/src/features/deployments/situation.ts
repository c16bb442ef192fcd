import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import type { Tone } from "../../ui/status.tsx";
import { reasonAdvice, reasonText } from "./reasons.ts";
import { robots } from "./rollout-text.ts";

/** Where a deployment stands, in words. */
export interface Situation {
  tone: Tone;
  text: string;
  /** What somebody may do about it. */
  advice?: string | undefined;
  /** It waits until then. */
  until?: string | undefined;
}

type Facts = Pick<Deployment, "status" | "reason" | "counts" | "scheduled_at" | "wave_count" | "rollout">;

/** What it waits for, or why it ended as it did. Pure. */
export function situationOf(deployment: Facts, waves: readonly DeploymentWave[]): Situation {
  const { status, reason, counts, scheduled_at } = deployment;
  const why = reason === null ? "" : `: ${reasonText(reason)}`;
  switch (status) {
    case "scheduled":
      return { tone: "info", text: "Held until its time.", until: scheduled_at ?? undefined };
    case "paused":
      return {
        tone: "warn",
        text: `Paused${why}. ${counts.active > 0 ? `${robots(counts.active)} at work finish; nobody` : "Nobody"} else gets it.`,
        advice: reason === "threshold_exceeded" ? "See why they failed, then resume it, roll it back or cancel it." : "Resume it to go on.",
      };
    case "cancelling":
      return { tone: "idle", text: `Stopping: ${robots(counts.active)} finish what they do.` };
    case "rolling_back":
      return {
        tone: "warn",
        text: `Going back${why}: ${robots(counts.applied + counts.active)} still to go.`,
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

function appliedText({ applied, total, failed, rolled_back, cancelled }: Facts["counts"]): string {
  const failures = failed + rolled_back;
  const parts = [
    applied === total ? `${robots(applied)} run it.` : `${applied.toLocaleString("en")} of ${robots(total)} run it.`,
    failures > 0 && `${failures.toLocaleString("en")} failed, which its policy allows.`,
    cancelled > 0 && `${cancelled.toLocaleString("en")} were left out.`,
  ];
  return parts.filter((part) => part !== false).join(" ");
}

function running({ counts, reason, rollout }: Facts, waves: readonly DeploymentWave[]): Situation {
  if (reason === "threshold_exceeded")
    return { tone: "bad", text: `Stopped: too many robots failed. ${robots(counts.active)} that have it in hand finish.` };
  const gate = waves.find(({ status }) => status === "gate");
  if (gate !== undefined)
    return {
      tone: "warn",
      text: `Wave ${gate.wave + 1} of ${waves.length} waits for somebody to promote it.`,
      advice: "Look whether the robots that have it are well, then promote it.",
    };
  const soaking = waves.find(({ status }) => status === "soaking");
  if (soaking !== undefined)
    return {
      tone: "info",
      text: `Wave ${soaking.wave + 1} of ${waves.length} has passed and soaks.`,
      until: soaking.soaks_until ?? undefined,
    };
  if (counts.total === 0) return { tone: "info", text: "The robots are being looked up." };
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
          ? "The table shows what each of them waits for."
          : "The table shows what each of them waits for, such as its maintenance window.",
    };
  return {
    tone: "info",
    text: `${name}${robots(active)} updating${queued > 0 ? `, ${queued.toLocaleString("en")} ${waiting}` : ""}.`,
  };
}
