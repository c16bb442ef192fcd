import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type Places, query, usePlaces } from "../../api/queries.ts";
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
import { ActorName, DeploymentTitle, EventLog, timesOf, TargetLink } from "./deployment-parts.tsx";
import { Failures } from "./failures.tsx";
import { FromTo, Pace } from "./deployment-pace.tsx";
import { Counts, DeploymentSituation, WaveList } from "./deployment-progress.tsx";
import { policyLines } from "./deployment-text.ts";
import { StepBar } from "./step-bar.tsx";
import { TargetTable } from "./target-table.tsx";
import { OFFLINE_REFRESH_MS } from "./target.ts";

const route = getRouteApi("/app/deployments/$id");

/** A deployment: its state, progress, waves, robots and events. */
export function DeploymentPage() {
  const { id } = route.useParams();
  const deployment = useQuery(query("getDeployment", { params: { id } }));
  const is_queued = (deployment.data?.data.counts.queued ?? 0) > 0;
  const waves = useQuery({ ...query("listDeploymentWaves", { params: { id } }), refetchInterval: is_queued && OFFLINE_REFRESH_MS });
  return (
    <LoadedPage title="Deployment" query={deployment}>
      {(data) => <Live deployment={data} waves={waves} key={data.id} />}
    </LoadedPage>
  );
}

function Live({ deployment, waves }: { deployment: Deployment; waves: Loaded<{ items: readonly DeploymentWave[] }> }) {
  const places = usePlaces();
  const filters = useFilters(route.useSearch());
  const { id, release, status, counts, wave_count } = deployment;
  const tag = release.tag === "" ? "deleted release" : release.tag;
  return (
    <>
      <PageHeader
        title={<DeploymentTitle name={tag} target={deployment} places={places} />}
        label={`${tag}: ${status.replaceAll("_", " ")}`}
        meta={
          <>
            <DeploymentStatusBadge deployment={deployment} />
            <FromTo deployment={deployment} tag={tag} />
            <CopyText label="ID" text={id} />
          </>
        }
        actions={<StepBar deployment={deployment} waves={waves.data?.items ?? []} />}
      />
      <DeploymentSituation deployment={deployment} waves={waves} />
      {counts.total > 0 && <Counts counts={counts} label={`Robots of ${tag}`} filters={filters} note={<Pace deployment={deployment} />} />}
      <Failures deployment={deployment} />
      {wave_count > 1 && waves.data !== undefined && (
        <WaveList
          waves={waves.data.items}
          is_paused={status === "paused"}
          chosen={filters.search.wave}
          onChoose={(wave) => filters.change({ wave })}
        />
      )}
      <Section title="Robots">
        <TargetTable name="listDeploymentTargets" deployment={deployment} waves={wave_count} filters={filters} />
      </Section>
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <EventLog name="listDeploymentEvents" id={id} />
        <Facts deployment={deployment} places={places} />
      </div>
    </>
  );
}

const OtherDeployment = ({ id }: { id: string }) => (
  <Link to="/deployments/$id" params={{ id }} className="font-mono text-xs text-accent underline [overflow-wrap:anywhere]">
    {id}
  </Link>
);

function Facts({ deployment, places }: { deployment: Deployment; places: Places }) {
  const { release, retry_of, rollback_of, created_by, rollout } = deployment;
  return (
    <div className="min-w-0">
      <Section title="Details">
        <Card>
          <KeyValue
            items={{
              Release: (
                <Link to="/releases/$id" params={{ id: release.id }} className="text-accent underline">
                  <Text>{release.tag === "" ? release.id : release.tag}</Text>
                </Link>
              ),
              Target: <TargetLink target={deployment} places={places} />,
              "Created by": <ActorName actor={created_by} />,
              "Retry of": retry_of !== null && <OtherDeployment id={retry_of} />,
              "Rollback of": rollback_of !== null && <OtherDeployment id={rollback_of} />,
              ...timesOf(deployment),
            }}
          />
        </Card>
      </Section>
      <Section title="Policy">
        <Card>
          <KeyValue items={Object.fromEntries(policyLines(rollout))} />
        </Card>
      </Section>
    </div>
  );
}
