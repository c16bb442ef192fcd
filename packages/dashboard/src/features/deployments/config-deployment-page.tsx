import type { ConfigDeployment } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { query, useAction, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  ConfirmDialog,
  copyAsRf,
  CopyText,
  KeyValue,
  LoadedPage,
  LinkButton,
  Menu,
  PageHeader,
  Section,
  shellLine,
  StatusBadge,
  Text,
  Tooltip,
  useFilters,
} from "../../ui/index.ts";
import { ActorName, DeploymentTitle, EventLog, exactTime } from "./deployment-parts.tsx";
import { Counts, SituationNote } from "./deployment-progress.tsx";
import { reasonAdvice, reasonText, robots } from "./deployment-text.ts";
import { hasEnded, type Situation } from "./steps.ts";
import { TargetTable } from "./target-table.tsx";

const route = getRouteApi("/app/config-deployments/$id");

/** A config deployment: its progress, robots and events. */
export function ConfigDeploymentPage() {
  const { id } = route.useParams();
  const deployment = useQuery(query("getConfigDeployment", { params: { id } }));
  return (
    <LoadedPage title="Config deployment" query={deployment}>
      {(data) => <Live deployment={data} />}
    </LoadedPage>
  );
}

const nameOf = ({ namespace }: ConfigDeployment): string => (namespace === null ? "Config (all namespaces)" : `Config ${namespace}`);

function situationOf({ status, reason, counts }: ConfigDeployment): Situation {
  const why = reason === null ? "" : `: ${reasonText(reason)}`;
  const advice = reason === null ? undefined : reasonAdvice(reason);
  const waiting = counts.pending + counts.queued;
  if (status === "applied") return { tone: "ok", text: `Applied on ${counts.applied.toLocaleString()} of ${robots(counts.total)}.` };
  if (status === "failed") return { tone: "bad", text: `Failed${why}.`, advice };
  if (hasEnded(status)) return { tone: "idle", text: `${status === "cancelled" ? "Cancelled" : "Rolled back"}${why}.`, advice };
  if (status === "cancelling") return { tone: "idle", text: `Cancelling: ${robots(counts.active)} finishing.` };
  return {
    tone: "info",
    text: `${robots(counts.active)} updating${waiting > 0 ? `, ${waiting.toLocaleString()} waiting` : ""}.`,
    ...(counts.active === 0 && waiting > 0 ? { advice: "Robots usually wait because they are offline. The table shows the reason." } : {}),
  };
}

function Live({ deployment }: { deployment: ConfigDeployment }) {
  const places = usePlaces();
  const filters = useFilters(route.useSearch());
  const { id, status, counts } = deployment;
  return (
    <>
      <PageHeader
        title={<DeploymentTitle name={nameOf(deployment)} target={deployment} places={places} />}
        label={`${nameOf(deployment)}: ${status.replaceAll("_", " ")}`}
        meta={
          <>
            <StatusBadge status={status} />
            <CopyText label="ID" text={id} />
          </>
        }
        actions={<Actions deployment={deployment} />}
      />
      <SituationNote situation={situationOf(deployment)} />
      <Counts counts={counts} label="Robots that receive the config" filters={filters} />
      <Section title="Robots">
        <TargetTable name="listConfigDeploymentTargets" deployment={deployment} waves={1} filters={filters} />
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
    <Section title="Details">
      <Card>
        <KeyValue
          items={{
            Namespace: <Text>{deployment.namespace ?? "all"}</Text>,
            Revision: <CopyText label="Revision" text={deployment.revision} />,
            "Created by": <ActorName actor={deployment.created_by} />,
            Created: exactTime(deployment.created_at),
            Started: exactTime(deployment.started_at),
            Cancelled: exactTime(deployment.cancel_requested_at),
            Finished: exactTime(deployment.finished_at),
            Expires: deployment.finished_at === null && exactTime(deployment.expires_at),
          }}
        />
      </Card>
    </Section>
  );
}

function whyNot(status: string, may_change: boolean): string | undefined {
  if (!may_change) return "This requires the operator role.";
  if (hasEnded(status)) return "The deployment has ended.";
  return status === "cancelling" ? "The deployment is being cancelled." : undefined;
}

function Actions({ deployment: { id, status, counts, namespace } }: { deployment: ConfigDeployment }) {
  const [is_asking, setAsking] = useState(false);
  const why_not = whyNot(status, useMay("operator"));
  const cancel = useAction("cancelConfigDeployment", { done: "Config deployment cancelled", onSuccess: () => setAsking(false) });
  const button = (
    <Button aria-disabled={why_not !== undefined} onClick={() => why_not === undefined && setAsking(true)}>
      Cancel
    </Button>
  );
  return (
    <>
      <LinkButton to="/configs">Go to configs</LinkButton>
      {why_not === undefined ? button : <Tooltip text={why_not}>{button}</Tooltip>}
      <Menu label="More" entries={[copyAsRf(shellLine("rf", "configs", "events", id))]} />
      <ConfirmDialog
        open={is_asking}
        onClose={() => setAsking(false)}
        title="Cancel config deployment?"
        consequence={`Waiting robots (${counts.pending + counts.queued}) will not receive ${namespace === null ? "the config" : `the config ${namespace}`}. Updating robots (${counts.active}) will finish. Updated robots (${counts.applied}) will keep the new values.`}
        verb="Cancel deployment"
        dismiss="Keep deployment"
        danger
        command={shellLine("rf", "configs", "cancel", id)}
        busy={cancel.isPending}
        onConfirm={() => cancel.mutate({ params: { id } })}
      />
    </>
  );
}
