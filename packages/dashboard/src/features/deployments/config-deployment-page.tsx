import type { ConfigDeployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { query, usePlaces } from "../../api/queries.ts";
import {
  Card,
  CopyText,
  DeploymentStatusBadge,
  KeyValue,
  type Loaded,
  LoadedPage,
  PageHeader,
  Section,
  Text,
  useFilters,
} from "../../ui/index.ts";
import { configName } from "./deployment-kind.ts";
import { ActorName, DeploymentTitle, EventLog, timesOf } from "./deployment-parts.tsx";
import { Counts, DeploymentSituation, WaveList } from "./deployment-progress.tsx";
import { configPolicyLines } from "./deployment-text.ts";
import { StepBar } from "./step-bar.tsx";
import { TargetTable } from "./target-table.tsx";
import { OFFLINE_REFRESH_MS } from "./target.ts";

const route = getRouteApi("/app/config-deployments/$id");

/** A config deployment: its state, progress, waves, robots and events. */
export function ConfigDeploymentPage() {
  const { id } = route.useParams();
  const deployment = useQuery(query("getConfigDeployment", { params: { id } }));
  const is_queued = (deployment.data?.data.counts.queued ?? 0) > 0;
  const waves = useQuery({ ...query("listConfigDeploymentWaves", { params: { id } }), refetchInterval: is_queued && OFFLINE_REFRESH_MS });
  return (
    <LoadedPage title="Config deployment" query={deployment}>
      {(data) => <Live deployment={data} waves={waves} key={data.id} />}
    </LoadedPage>
  );
}

function Live({ deployment, waves }: { deployment: ConfigDeployment; waves: Loaded<{ items: readonly DeploymentWave[] }> }) {
  const places = usePlaces();
  const filters = useFilters(route.useSearch());
  const { id, status, counts, wave_count } = deployment;
  return (
    <>
      <PageHeader
        title={<DeploymentTitle name={configName(deployment)} target={deployment} places={places} />}
        label={`${configName(deployment)}: ${status.replaceAll("_", " ")}`}
        meta={
          <>
            <DeploymentStatusBadge deployment={deployment} />
            <CopyText label="ID" text={id} />
            <Link to="/configs" className="text-accent underline">
              Configs
            </Link>
          </>
        }
        actions={<StepBar deployment={deployment} waves={waves.data?.items ?? []} />}
      />
      <DeploymentSituation deployment={deployment} waves={waves} />
      {counts.total > 0 && <Counts counts={counts} label="Robots that receive the config" filters={filters} />}
      {wave_count > 1 && waves.data !== undefined && (
        <WaveList
          waves={waves.data.items}
          is_paused={status === "paused"}
          chosen={filters.search.wave}
          onChoose={(wave) => filters.change({ wave })}
        />
      )}
      <Section title="Robots">
        <TargetTable name="listConfigDeploymentTargets" deployment={deployment} waves={wave_count} filters={filters} />
      </Section>
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <EventLog name="listConfigDeploymentEvents" id={id} />
        <Facts deployment={deployment} />
      </div>
    </>
  );
}

function Facts({ deployment }: { deployment: ConfigDeployment }) {
  return (
    <div className="min-w-0">
      <Section title="Details">
        <Card>
          <KeyValue
            items={{
              Namespace: <Text>{deployment.namespace ?? "all"}</Text>,
              Revision: <CopyText label="Revision" text={deployment.revision} />,
              "Created by": <ActorName actor={deployment.created_by} />,
              ...timesOf(deployment),
            }}
          />
        </Card>
      </Section>
      <Section title="Policy">
        <Card>
          <KeyValue items={Object.fromEntries(configPolicyLines(deployment.rollout))} />
        </Card>
      </Section>
    </div>
  );
}
