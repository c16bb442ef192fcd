import type { ConfigDeployment, Deployment, Incident, IncidentEntry, IncidentMember } from "@roamfleet/protocol/routes";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { pagesQuery, query, rowsOf, usePlaces } from "../../api/queries.ts";
import {
  Badge,
  Card,
  CardList,
  type Column,
  combineLoaded,
  CopyText,
  DataTable,
  DeploymentStatusBadge,
  EmptyState,
  isNotFound,
  KeyValue,
  LoadedPage,
  NameLink,
  PageHeader,
  QueryState,
  Section,
  Text,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { configName, deploymentName, deploymentPage, isConfigDeployment } from "../deployments/deployment-kind.ts";
import { TargetName } from "../deployments/deployment-parts.tsx";
import { conditionText } from "./alert-text.ts";
import { IncidentActions } from "./incident-actions.tsx";
import { IncidentStatusBadge, isDeployment, membersText, SeverityBadge } from "./incident-parts.tsx";

const route = getRouteApi("/app/incidents/$id");
/** The logs of this time before and after a robot joined an incident show its cause. */
const LOG_SPAN_MS = 10 * 60_000;
/** Deployments that were created within this time before an incident may be its cause. */
const CAUSE_SPAN_MS = 3_600_000;
const MEMBER_ROWS = 100;
const ENTRIES_MAX = 200;
const DEPLOYMENTS_SHOWN = 5;

/** An incident: its members, its history, and what happened at that time. */
export function IncidentPage() {
  const { id } = route.useParams();
  const incident = useQuery(query("getIncident", { params: { id } }));
  return (
    <LoadedPage title="Incident" query={incident}>
      {(data) => <Found key={data.id} incident={data} />}
    </LoadedPage>
  );
}

function Found({ incident }: { incident: Incident }) {
  const { id, title, severity, status, raised_at } = incident;
  return (
    <>
      <PageHeader
        title={<Text>{title}</Text>}
        label={title}
        meta={
          <>
            <SeverityBadge severity={severity} />
            <IncidentStatusBadge status={status} />
            <span>{membersText(incident)}</span>
            <span>
              opened <Time at={raised_at} />
            </span>
            <CopyText label="ID" text={id} />
          </>
        }
        actions={<IncidentActions incident={incident} />}
      />
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="min-w-0">
          <Members id={id} />
          <AtThatTime incident={incident} />
        </div>
        <div className="min-w-0">
          <Facts incident={incident} />
          <History id={id} />
        </div>
      </div>
    </>
  );
}

const atMs = (at: string, by_ms: number): string => new Date(Date.parse(at) + by_ms).toISOString();

const MEMBER_COLUMNS: readonly Column<IncidentMember>[] = [
  {
    name: "Name",
    width: "minmax(0, 1.6fr)",
    cell: ({ subject_id, robot_name }) =>
      isDeployment(subject_id) ? (
        <DeploymentName id={subject_id} />
      ) : (
        <NameLink to="/robots/$id" params={{ id: subject_id }} name={robot_name ?? subject_id} className="font-medium" />
      ),
  },
  {
    name: "State",
    width: "6.5rem",
    cell: ({ left_at }) => (left_at === null ? <Badge tone="bad">ongoing</Badge> : <Badge tone="ok">recovered</Badge>),
  },
  { name: "Since", width: "6.5rem", priority: 2, cell: ({ joined_at }) => <Time at={joined_at} /> },
  {
    name: "Until",
    width: "6.5rem",
    priority: 3,
    cell: ({ left_at }) => (left_at === null ? <span className="text-muted">—</span> : <Time at={left_at} />),
  },
  {
    name: "Logs",
    width: "4.5rem",
    cell: ({ subject_id, joined_at, robot_name }) =>
      isDeployment(subject_id) ? (
        <span className="text-muted">—</span>
      ) : (
        <Link
          to="/robots/$id/logs"
          params={{ id: subject_id }}
          search={{ since: atMs(joined_at, -LOG_SPAN_MS), until: atMs(joined_at, LOG_SPAN_MS) }}
          aria-label={`Logs of ${robot_name ?? subject_id} at that time`}
          className="inline-flex min-h-6 items-center text-accent underline"
        >
          Logs
        </Link>
      ),
  },
];

function DeploymentName({ id }: { id: string }) {
  const is_config = isConfigDeployment(id);
  const release = useQuery({ ...query("getDeployment", { params: { id } }), enabled: !is_config }).data?.data.release;
  const config = useQuery({ ...query("getConfigDeployment", { params: { id } }), enabled: is_config }).data?.data;
  const name = config === undefined ? release?.tag : configName(config);
  return <NameLink {...deploymentPage(id)} name={name ?? id} className="font-medium" />;
}

function Members({ id }: { id: string }) {
  const query = useInfiniteQuery(pagesQuery("listIncidentMembers", { params: { id }, query: { limit: MEMBER_ROWS } }));
  const rows = useMemo(() => rowsOf(query.data), [query.data]);
  return (
    <Section title="Affected">
      <QueryState query={query}>
        {() => (
          <DataTable
            label="Affected"
            columns={MEMBER_COLUMNS}
            rows={rows}
            rowKey={subjectOf}
            has_more={query.hasNextPage}
            onEnd={() => !query.isFetchingNextPage && void query.fetchNextPage()}
            empty={<EmptyState title="Nothing is affected" />}
          />
        )}
      </QueryState>
    </Section>
  );
}

const subjectOf = ({ subject_id }: IncidentMember): string => subject_id;

/** A link below a list, high enough for touch input. */
const ALL_LINK = "inline-flex min-h-6 items-center text-accent underline";

/** Deployments that were created shortly before the incident. One of them may be the cause. */
function AtThatTime({ incident: { fleet_id, raised_at } }: { incident: Incident }) {
  const search = { since: atMs(raised_at, -CAUSE_SPAN_MS), ...(fleet_id === null ? {} : { fleet_id }) };
  const asked = { ...search, until: raised_at, limit: DEPLOYMENTS_SHOWN, cause: "request" } as const;
  const releases = useQuery(query("listDeployments", { query: asked }));
  const configs = useQuery(query("listConfigDeployments", { query: asked }));
  const found = useMemo(() => newestOf(releases.data?.items, configs.data?.items), [releases.data, configs.data]);
  return (
    <Section title="Deployments in the hour before">
      <QueryState query={combineLoaded([releases, configs], found)} rows={2}>
        {(items) => (
          <CardList items={items} empty="No deployments were created in the hour before">
            {(deployment) => (
              <li key={deployment.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2">
                <span className="min-w-0 flex-[1_1_14rem]">
                  <NameLink {...deploymentPage(deployment.id)} name={deploymentName(deployment)} className="font-medium" />
                  <TargetName target={deployment} className="text-xs text-muted" />
                </span>
                <span className="flex items-center gap-3">
                  <DeploymentStatusBadge deployment={deployment} />
                  <span className="shrink-0 text-xs text-muted sm:w-20 sm:text-right">
                    <Time at={deployment.created_at} />
                  </span>
                </span>
              </li>
            )}
          </CardList>
        )}
      </QueryState>
      <p className="mt-1 flex flex-wrap gap-x-4">
        <Link to="/deployments" search={search} className={ALL_LINK}>
          All release deployments
        </Link>
        <Link to="/deployments" search={{ ...search, tab: "configs" }} className={ALL_LINK}>
          All config deployments
        </Link>
      </p>
    </Section>
  );
}

/** Returns the newest deployments of releases and configs together; undefined until both lists are loaded. */
function newestOf(releases: readonly Deployment[] | undefined, configs: readonly ConfigDeployment[] | undefined) {
  if (releases === undefined || configs === undefined) return undefined;
  const all: (Deployment | ConfigDeployment)[] = [...releases, ...configs];
  return all.toSorted((a, b) => b.created_at.localeCompare(a.created_at)).slice(0, DEPLOYMENTS_SHOWN);
}

function Facts({ incident }: { incident: Incident }) {
  const { rule_id, site_id, fleet_id, assignee_name, flap_count, created_at, raised_at, acknowledged_at, resolved_at } = incident;
  const places = usePlaces();
  const rule = useQuery(query("getAlertRule", { params: { id: rule_id } }));
  return (
    <Section title="Details">
      <Card>
        <KeyValue
          items={{
            "Alert rule": (
              <Link
                to="/incidents"
                search={{ rule_id, state: "all" }}
                title="Incidents of this rule"
                className="inline-flex min-h-6 items-center text-accent underline"
              >
                <Text>{rule.data?.data.name ?? (rule.isPending ? "…" : isNotFound(rule.error) ? "not available" : "not loaded")}</Text>
              </Link>
            ),
            Condition: rule.data !== undefined && conditionText(rule.data.data),
            Site: (
              <NameLink
                to="/sites/$id"
                params={{ id: site_id }}
                name={places.site_names.get(site_id) ?? "a site"}
                className="text-accent underline"
              />
            ),
            Fleet: fleet_id !== null && (
              <NameLink
                to="/fleets/$id"
                params={{ id: fleet_id }}
                name={places.fleet_names.get(fleet_id) ?? "a fleet"}
                className="text-accent underline"
              />
            ),
            Assignee: <Text>{assignee_name}</Text>,
            Opened: <Time at={created_at} exact />,
            Reopened: flap_count > 0 && (
              <>
                <Time at={raised_at} exact /> ({flap_count}×)
              </>
            ),
            Acknowledged: acknowledged_at !== null && <Time at={acknowledged_at} exact />,
            Resolved: resolved_at !== null && <Time at={resolved_at} exact />,
          }}
        />
      </Card>
    </Section>
  );
}

const ENTRY_WORDS: Record<IncidentEntry["kind"], string> = {
  opened: "opened the incident",
  acknowledged: "acknowledged",
  assigned: "assigned it to",
  commented: "commented",
  resolved: "resolved the incident",
  reopened: "reopened the incident",
};

function History({ id }: { id: string }) {
  const entries = useQuery(query("listIncidentEntries", { params: { id }, query: { limit: ENTRIES_MAX } }));
  return (
    <Section title="History">
      <QueryState query={entries} rows={3}>
        {({ items }) => (
          <CardList items={items} empty="No entries yet" ordered>
            {({ id: key, at, kind, actor, comment }) => (
              <li key={key} className="px-4 py-2">
                <span className="flex flex-wrap items-baseline gap-x-2">
                  <span className="max-w-full min-w-0 font-medium">
                    <TextLine>{actor.name ?? actor.type.replaceAll("_", " ")}</TextLine>
                  </span>
                  <span>
                    {kind === "assigned" && comment === null ? "removed the assignee" : ENTRY_WORDS[kind]}
                    {kind === "assigned" && comment !== null && (
                      <>
                        {" "}
                        <Text>{comment}</Text>
                      </>
                    )}
                  </span>
                  <span className="ml-auto text-xs text-muted">
                    <Time at={at} exact />
                  </span>
                </span>
                {kind !== "assigned" && comment !== null && (
                  <p className="mt-1 whitespace-pre-wrap">
                    <Text>{comment}</Text>
                  </p>
                )}
              </li>
            )}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}
