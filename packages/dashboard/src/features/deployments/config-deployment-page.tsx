import type { ConfigDeployment } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  ConfirmDialog,
  copyAsRf,
  CopyText,
  KeyValue,
  LinkButton,
  Menu,
  PageHeader,
  QueryState,
  Section,
  shellLine,
  StatusBadge,
  Text,
  Time,
  Tooltip,
} from "../../ui/index.ts";
import { Counts } from "./counts.tsx";
import { EventLog } from "./event-log.tsx";
import { ActorName, TargetLink } from "./parts.tsx";
import { reasonAdvice, reasonText } from "./reasons.ts";
import { robots } from "./rollout-text.ts";
import type { DeploymentSearch } from "./search.ts";
import type { Situation } from "./situation.ts";
import { SituationNote } from "./situation-note.tsx";
import { hasEnded } from "./steps.ts";
import { TargetTable } from "./target-table.tsx";

const route = getRouteApi("/app/config-deployments/$id");

/** One deployment of configs while it goes out, and what became of it. */
export function ConfigDeploymentPage() {
  const { id } = route.useParams();
  const deployment = useQuery(query("getConfigDeployment", { params: { id } }));
  return <QueryState query={deployment}>{({ data }) => <Live deployment={data} />}</QueryState>;
}

const nameOf = ({ namespace }: ConfigDeployment): string => (namespace === null ? "Config of all namespaces" : `Config ${namespace}`);

function situationOf({ status, reason, counts }: ConfigDeployment): Situation {
  const why = reason === null ? "" : `: ${reasonText(reason)}`;
  const advice = reason === null ? undefined : reasonAdvice(reason);
  const waiting = counts.pending + counts.queued;
  if (status === "applied") return { tone: "ok", text: `${counts.applied.toLocaleString()} of ${robots(counts.total)} have it.` };
  if (status === "failed") return { tone: "bad", text: `Failed${why}.`, advice };
  if (hasEnded(status)) return { tone: "idle", text: `${status === "cancelled" ? "Cancelled" : "Rolled back"}${why}.`, advice };
  if (status === "cancelling") return { tone: "idle", text: `Stopping: ${robots(counts.active)} finish what they do.` };
  return {
    tone: "info",
    text: `${robots(counts.active)} ${counts.active === 1 ? "takes" : "take"} it up${waiting > 0 ? `, ${waiting.toLocaleString()} wait` : ""}.`,
    ...(counts.active === 0 && waiting > 0 ? { advice: "They usually wait to connect: the table says for what." } : {}),
  };
}

function Live({ deployment }: { deployment: ConfigDeployment }) {
  const places = usePlaces();
  const search = route.useSearch();
  const navigate = useNavigate();
  const { id, status, counts } = deployment;
  const change = (next: DeploymentSearch): void =>
    void navigate({ to: "/config-deployments/$id", params: { id }, search: next, replace: true });
  return (
    <>
      <PageHeader
        title={
          <span className="flex min-w-0 flex-wrap items-baseline gap-x-2">
            <Text>{nameOf(deployment)}</Text>
            <span className="font-normal text-muted">to</span>
            <span className="max-w-full min-w-0">
              <TargetLink target={deployment} places={places} />
            </span>
          </span>
        }
        label={`${nameOf(deployment)}: ${status.replaceAll("_", " ")}`}
        meta={
          <>
            <StatusBadge status={status} />
            <CopyText label="Id">{id}</CopyText>
          </>
        }
        actions={<Actions deployment={deployment} />}
      />
      <SituationNote situation={situationOf(deployment)} />
      <Counts counts={counts} label="Robots that get the config" search={search} onChange={change} />
      <Section title="Robots">
        <TargetTable name="listConfigDeploymentTargets" deployment={deployment} waves={1} search={search} onChange={change} />
      </Section>
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <EventLog name="listConfigDeploymentEvents" id={id} />
        <Facts deployment={deployment} />
      </div>
    </>
  );
}

function Facts({ deployment }: { deployment: ConfigDeployment }) {
  const time = (label: string, at: string | null) => at !== null && ([label, <Time key={label} at={at} exact />] as const);
  return (
    <Section title="About it">
      <Card>
        <KeyValue
          items={[
            ["Namespace", <Text key="namespace">{deployment.namespace ?? "all"}</Text>],
            [
              "Revision",
              <CopyText key="revision" label="Revision">
                {deployment.revision}
              </CopyText>,
            ],
            ["Made by", <ActorName key="by" actor={deployment.created_by} />],
            time("Made", deployment.created_at),
            time("Started", deployment.started_at),
            time("Cancelled", deployment.cancel_requested_at),
            time("Finished", deployment.finished_at),
            deployment.finished_at === null && time("Expires", deployment.expires_at),
          ]}
        />
      </Card>
    </Section>
  );
}

function whyNot(status: string, may_change: boolean): string | undefined {
  if (!may_change) return "Your role can look, not change: it needs the role operator.";
  if (hasEnded(status)) return "It has ended.";
  return status === "cancelling" ? "It is being cancelled." : undefined;
}

function Actions({ deployment: { id, status, counts, namespace } }: { deployment: ConfigDeployment }) {
  const [is_asking, setAsking] = useState(false);
  const why_not = whyNot(status, useMay("operator"));
  const cancel = useAction("cancelConfigDeployment", { done: "Cancelled", onSuccess: () => setAsking(false) });
  const button = (
    <Button aria-disabled={why_not !== undefined} onClick={() => why_not === undefined && setAsking(true)}>
      Cancel
    </Button>
  );
  return (
    <>
      <LinkButton to="/configs">To the configs</LinkButton>
      {why_not === undefined ? button : <Tooltip text={why_not}>{button}</Tooltip>}
      <Menu label="More" entries={[copyAsRf(shellLine("rf", "configs", "events", id))]} />
      <ConfirmDialog
        open={is_asking}
        onClose={() => setAsking(false)}
        title="Cancel this config deployment?"
        consequence={`${robots(counts.pending + counts.queued)} that have not got ${namespace === null ? "the config" : namespace} keep what they have; ${robots(counts.applied)} that have it keep it. ${robots(counts.active)} are at it.`}
        verb="Cancel the deployment"
        danger
        command={shellLine("rf", "configs", "cancel", id)}
        busy={cancel.isPending}
        onConfirm={() => cancel.mutate({ params: { id } })}
      />
    </>
  );
}
