import type { ConfigDeployment, Deployment, DeploymentWave, Overview } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import {
  CardList,
  combineLoaded,
  DeploymentStatusBadge,
  hasFailed,
  type Loaded,
  NameLink,
  QueryState,
  Section,
  Time,
} from "../../ui/index.ts";
import { CountsBar, countsText, TargetName } from "../deployments/deployment-parts.tsx";
import { WaitingSteps } from "../deployments/step-bar.tsx";
import { deploymentName, deploymentPage, isConfigDeployment } from "../deployments/deployment-kind.ts";
import { situationOf } from "../deployments/steps.ts";

/** Maximum running deployments that are read. */
const RUNNING_MAX = 10;

interface Waiting {
  deployments: (Deployment | ConfigDeployment)[];
  queries: readonly Loaded<unknown>[];
}

/** Loads the deployments that wait for a decision: paused ones, and running ones that await a promotion. `counts`: how many there are. */
function useWaiting(paused: readonly Deployment[], counts: Pick<Overview, "deployments" | "config_deployments">): Waiting {
  const running = { status: "in_progress", cause: "request", limit: RUNNING_MAX } as const;
  const [has_gate, has_config_gate] = [counts.deployments.waiting_gate > 0, counts.config_deployments.waiting_gate > 0];
  const has_paused_config = counts.config_deployments.paused > 0;
  const releases = useQuery({ ...query("listDeployments", { query: running }), enabled: has_gate });
  const configs = useQuery({ ...query("listConfigDeployments", { query: running }), enabled: has_config_gate });
  const paused_configs = useQuery({
    ...query("listConfigDeployments", { query: { ...running, status: "paused" } }),
    enabled: has_paused_config,
  });
  // A disabled query keeps what it loaded before.
  const in_progress = [...(has_gate ? (releases.data?.items ?? []) : []), ...(has_config_gate ? (configs.data?.items ?? []) : [])];
  return {
    deployments: [
      ...paused,
      ...(has_paused_config ? (paused_configs.data?.items ?? []) : []),
      ...in_progress.filter(({ awaiting_promotion }) => awaiting_promotion),
    ],
    queries: [...(has_gate ? [releases] : []), ...(has_config_gate ? [configs] : []), ...(has_paused_config ? [paused_configs] : [])],
  };
}

interface WaitingRolloutsProps {
  paused: readonly Deployment[];
  overview: Pick<Overview, "deployments" | "config_deployments">;
}

/** Deployments that wait for a decision: paused ones, and those whose next wave must be promoted. With their actions. */
export function WaitingRollouts({ paused, overview }: WaitingRolloutsProps) {
  const { deployments: shown, queries } = useWaiting(paused, overview);
  const waves = useQueries({
    queries: shown.map(({ id }) => {
      const args = { params: { id } };
      return isConfigDeployment(id) ? query("listConfigDeploymentWaves", args) : query("listDeploymentWaves", args);
    }),
  });
  const items = shown
    .map((deployment, at) => ({ deployment, waves: waves[at]?.data?.items ?? [] }))
    // Without its waves, the text and the actions of a running deployment are unknown.
    .filter(({ deployment, waves: of }) => deployment.status === "paused" || of.length > 0);
  const needed = [...queries, ...waves];
  const is_read = needed.every(({ data }) => data !== undefined);
  if (items.length === 0 && !needed.some(hasFailed)) return null;
  return (
    <Section title="Waiting for a decision">
      <QueryState query={combineLoaded(needed, is_read || items.length > 0 ? items : undefined)} rows={2}>
        {(known) => <CardList items={known}>{(item) => <WaitingItem key={item.deployment.id} {...item} />}</CardList>}
      </QueryState>
    </Section>
  );
}

function WaitingItem({ deployment, waves }: { deployment: Deployment | ConfigDeployment; waves: readonly DeploymentWave[] }) {
  const { id, counts, paused_at } = deployment;
  const name = deploymentName(deployment);
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3">
      <div className="min-w-0 flex-[1_1_20rem]">
        <div className="flex min-w-0 flex-wrap items-baseline gap-x-2">
          <NameLink {...deploymentPage(id)} name={name} className="font-medium" />
          <TargetName target={deployment} className="text-muted" />
          <span className="shrink-0">
            <DeploymentStatusBadge deployment={deployment} />
          </span>
        </div>
        <p className="text-sm [overflow-wrap:anywhere]">
          {situationOf(deployment, waves).text}{" "}
          {paused_at !== null && (
            <span className="text-muted">
              paused <Time at={paused_at} />
            </span>
          )}
        </p>
        <p className="mb-1 text-xs text-muted tabular-nums">{countsText(counts)}</p>
        <CountsBar counts={counts} label={`Robots of ${name}`} />
      </div>
      <div className="flex flex-wrap gap-2">
        <WaitingSteps deployment={deployment} waves={waves} />
      </div>
    </li>
  );
}
