import type { Deployment, DeploymentWave } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type Places, query, usePlaces } from "../../api/queries.ts";
import { Card, CopyText, KeyValue, PageHeader, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { ActorName, EventLog, TargetLink } from "./deployment-parts.tsx";
import { Counts, SituationNote, WaveList } from "./deployment-progress.tsx";
import { policyLines } from "./deployment-text.ts";
import type { DeploymentSearch } from "../../search.ts";
import { StepBar } from "./step-bar.tsx";
import { situationOf } from "./steps.ts";
import { TargetTable } from "./target-table.tsx";

/** No event reports that a queued robot is offline: refetch the page this often. */
const OFFLINE_REFRESH_MS = 10_000;

const route = getRouteApi("/app/deployments/$id");

/** A deployment: its state, progress, waves, robots and events. */
export function DeploymentPage() {
  const { id } = route.useParams();
  const deployment = useQuery(query("getDeployment", { params: { id } }));
  const is_queued = (deployment.data?.data.counts.queued ?? 0) > 0;
  const waves = useQuery({ ...query("listDeploymentWaves", { params: { id } }), refetchInterval: is_queued && OFFLINE_REFRESH_MS });
  return (
    <QueryState query={deployment}>{({ data }) => <Live deployment={data} waves={waves.data?.items ?? []} key={data.id} />}</QueryState>
  );
}

function Live({ deployment, waves }: { deployment: Deployment; waves: readonly DeploymentWave[] }) {
  const places = usePlaces();
  const search = route.useSearch();
  const navigate = useNavigate();
  const { id, release, status, counts, wave_count } = deployment;
  const change = (next: DeploymentSearch): void => void navigate({ to: "/deployments/$id", params: { id }, search: next, replace: true });
  const tag = release.tag === "" ? "removed release" : release.tag;
  return (
    <>
      <PageHeader
        title={<Title deployment={deployment} tag={tag} places={places} />}
        label={`${tag}: ${status.replaceAll("_", " ")}`}
        meta={
          <>
            <StatusBadge status={status} />
            <span>app {release.app}</span>
            <CopyText label="ID" text={id} />
          </>
        }
        actions={<StepBar deployment={deployment} waves={waves} />}
      />
      <SituationNote situation={situationOf(deployment, waves)} />
      <Counts counts={counts} label={`Robots of ${tag}`} search={search} onChange={change} />
      {wave_count > 1 && (
        <WaveList waves={waves} is_paused={status === "paused"} chosen={search.wave} onChoose={(wave) => change({ ...search, wave })} />
      )}
      <Section title="Robots">
        <TargetTable name="listDeploymentTargets" deployment={deployment} waves={wave_count} search={search} onChange={change} />
      </Section>
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <EventLog name="listDeploymentEvents" id={id} />
        <Facts deployment={deployment} places={places} />
      </div>
    </>
  );
}

function Title({ deployment, tag, places }: { deployment: Deployment; tag: string; places: Places }) {
  return (
    <span className="flex min-w-0 flex-wrap items-baseline gap-x-2">
      <Text>{tag}</Text>
      <span className="font-normal text-muted">to</span>
      <span className="max-w-full min-w-0">
        <TargetLink target={deployment} places={places} />
      </span>
    </span>
  );
}

const OtherDeployment = ({ id }: { id: string }) => (
  <Link to="/deployments/$id" params={{ id }} className="font-mono text-xs text-accent underline [overflow-wrap:anywhere]">
    {id}
  </Link>
);

function Facts({ deployment, places }: { deployment: Deployment; places: Places }) {
  const { release, retry_of, rollback_of, created_by, rollout } = deployment;
  const time = (label: string, at: string | null) => at !== null && ([label, <Time key={label} at={at} exact />] as const);
  return (
    <div className="min-w-0">
      <Section title="Details">
        <Card>
          <KeyValue
            items={[
              [
                "Release",
                <Link key="release" to="/releases/$id" params={{ id: release.id }} className="text-accent underline">
                  <Text>{release.tag === "" ? release.id : release.tag}</Text>
                </Link>,
              ],
              ["Target", <TargetLink key="to" target={deployment} places={places} />],
              ["Created by", <ActorName key="by" actor={created_by} />],
              retry_of !== null && ["Retry of", <OtherDeployment key="retry" id={retry_of} />],
              rollback_of !== null && ["Rollback of", <OtherDeployment key="rollback" id={rollback_of} />],
              time("Created", deployment.created_at),
              time("Scheduled", deployment.scheduled_at),
              time("Started", deployment.started_at),
              time("Paused", deployment.paused_at),
              time("Cancelled", deployment.cancel_requested_at),
              time("Finished", deployment.finished_at),
              deployment.finished_at === null && time("Expires", deployment.expires_at),
            ]}
          />
        </Card>
      </Section>
      <Section title="Policy">
        <Card>
          <KeyValue items={policyLines(rollout)} />
        </Card>
      </Section>
    </div>
  );
}
