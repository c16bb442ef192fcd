import type { Deployment } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { CardList, NameLink, Section, StatusBadge, Time } from "../../ui/index.ts";
import { CountsBar, countsText, TargetName } from "../deployments/deployment-parts.tsx";
import { WaitingSteps } from "../deployments/step-bar.tsx";
import { situationOf } from "../deployments/steps.ts";
import { releaseName } from "../robots/robot-text.ts";

/** Maximum running deployments with waves whose waves are read. */
const RUNNING_MAX = 10;

/** Deployments that wait for a decision: paused ones, and those whose next wave must be promoted. With their actions. */
export function WaitingRollouts({ paused, waiting_gate }: { paused: readonly Deployment[]; waiting_gate: number }) {
  const running = useQuery({
    ...query("listDeployments", { query: { status: "in_progress", cause: "request", limit: RUNNING_MAX } }),
    enabled: waiting_gate > 0,
  });
  const with_waves = waiting_gate === 0 ? [] : (running.data?.items ?? []).filter(({ wave_count }) => wave_count > 1);
  const shown = [...paused, ...with_waves];
  const waves = useQueries({ queries: shown.map(({ id }) => query("listDeploymentWaves", { params: { id } })) });
  const items = shown
    .map((deployment, at) => ({ deployment, waves: waves[at]?.data?.items ?? [] }))
    .filter(({ deployment, waves: of }) => deployment.status === "paused" || of.some(({ status }) => status === "gate"));
  if (items.length === 0) return null;
  return (
    <Section title="Waiting for a decision">
      <CardList items={items}>
        {({ deployment, waves: of }) => {
          const { id, release, status, counts, paused_at } = deployment;
          return (
            <li key={id} className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3">
              <div className="min-w-0 flex-[1_1_20rem]">
                <div className="flex min-w-0 items-baseline gap-x-2">
                  <NameLink to="/deployments/$id" params={{ id }} name={releaseName(release)} className="font-medium" />
                  <TargetName target={deployment} className="text-muted" />
                  <span className="shrink-0">
                    <StatusBadge status={status === "paused" ? "paused" : "gate"} />
                  </span>
                </div>
                <p className="text-sm [overflow-wrap:anywhere]">
                  {situationOf(deployment, of).text}{" "}
                  {paused_at !== null && (
                    <span className="text-muted">
                      paused <Time at={paused_at} />
                    </span>
                  )}
                </p>
                <p className="mb-1 text-xs text-muted tabular-nums">{countsText(counts)}</p>
                <CountsBar counts={counts} label={`Robots of ${release.tag}`} />
              </div>
              <div className="flex flex-wrap gap-2">
                <WaitingSteps deployment={deployment} waves={of} />
              </div>
            </li>
          );
        }}
      </CardList>
    </Section>
  );
}
