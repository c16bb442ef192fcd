import { formatMetricGate } from "@roamfleet/protocol/metric-gate";
import type { WholeRollout } from "@roamfleet/protocol/routes";
import type { Body } from "@roamfleet/sdk";
import type { Context } from "./context.ts";
import { duration, relative } from "./duration.ts";
import type { Output } from "./output.ts";
import { labelsText, line, plain, Styled } from "./text.ts";

type Wave = Body<"listDeploymentWaves">["items"][number];
type PlannedWave = NonNullable<WholeRollout["waves"]>[number];

/**
 * Formats the robots that a wave selects (`up to 5%`, `up to 20 robots`, `zone=a`) and what follows the wave: soak time, gate.
 */
export function waveText(wave: PlannedWave | undefined): string {
  if (wave === undefined) return "remaining robots";
  const { percent, count, labels, soak_seconds, gate, gate_incidents, gate_metrics = [] } = wave;
  const who = percent !== undefined ? `up to ${percent}%` : count !== undefined ? `up to ${count} robots` : labelsText(labels ?? {});
  return [
    who,
    ...(soak_seconds > 0 ? [`soaks ${duration(soak_seconds)}`] : []),
    ...(gate_incidents === undefined
      ? []
      : [`pauses on a new incident of severity ${gate_incidents}${gate_incidents === "critical" ? "" : " or above"}`]),
    ...gate_metrics.map((metric) => `pauses on ${formatMetricGate(metric)}`),
    ...(gate === "manual" ? ["then manual promotion"] : []),
  ].join(", ");
}

/** Formats the status of a deployment, with a note while one of its waves needs a promotion. */
export const deploymentStatus = (out: Output, deployment: { status: string; awaiting_promotion: boolean }): Styled =>
  deployment.awaiting_promotion ? new Styled(line`${out.status(deployment.status)}, awaiting promotion`) : out.status(deployment.status);

/** Prints the waves of a deployment as a table. */
export async function showWaves(context: Context, waves: readonly Wave[]): Promise<void> {
  const { out } = context;
  await out.table(waves, [
    { title: "WAVE", value: ({ wave }) => wave + 1 },
    { title: "STATUS", value: ({ status }) => status },
    { title: "ROBOTS", value: ({ total }) => total },
    { title: "APPLIED", value: ({ applied }) => applied },
    { title: "FAILED", value: ({ failed, rolled_back }) => failed + rolled_back },
    { title: "WAITING FOR", value: (wave) => waitOf(wave, context.now()) },
  ]);
  for (const { wave, gate_checks } of waves)
    for (const { state, message } of gate_checks) out.line(line`Gate of wave ${wave + 1}, ${state}: ${message}`);
}

function waitOf({ status, soaks_until, gate_checks }: Wave, now: Date): string {
  if (status === "gate") return "promotion";
  if (status !== "soaking" || soaks_until === null) return "";
  if (new Date(soaks_until) <= now && gate_checks.some(({ state }) => state === "waiting")) return "data of the gate";
  return `soak time, ends ${relative(soaks_until, now)}`;
}

/**
 * Returns what a deployment and its waves are waiting for, one sentence each. The sentences name commands of `noun`. Calls `list` to read
 * the waves only if the deployment has several.
 */
export async function explainWaves(
  { id, status, wave_count }: { id: string; status: string; wave_count: number },
  noun: "deployments" | "configs",
  now: Date,
  list: () => Promise<{ items: readonly Wave[] }>,
): Promise<string[]> {
  if (status === "paused") return [`the deployment is paused; resume it: rf ${noun} resume ${plain(id)}`];
  if (wave_count === 1) return [];
  return (await list()).items.flatMap((wave) => waveSentence(`rf ${noun} promote ${id}`, wave, wave_count, now));
}

function waveSentence(promote: string, { wave, status, soaks_until, gate }: Wave, wave_count: number, now: Date): string[] {
  const name = `wave ${wave + 1} of ${wave_count}`;
  if (status === "gate") return [plain(`${name} is awaiting promotion: ${promote}`)];
  if (status !== "soaking") return [];
  const then = gate === "manual" ? "then the next wave awaits promotion" : `${promote} skips it`;
  return [plain(`${name} has passed and is soaking; the soak time ends ${relative(soaks_until, now)}; ${then}`)];
}
