import type { Deployment, Overview } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  CardList,
  cx,
  DeploymentStatusBadge,
  EmptyState,
  LinkButton,
  PageHeader,
  plural,
  QueryState,
  Section,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { IncidentList } from "../incidents/incident-parts.tsx";
import { CountsBar, TargetName } from "../deployments/deployment-parts.tsx";
import { releaseName } from "../robots/robot-text.ts";
import { type Destination, Figure } from "./figure.tsx";
import { FleetStates } from "./fleet-states.tsx";
import { RecentTimeline } from "./recent-timeline.tsx";
import { useVerdict } from "./use-verdict.ts";
import { VerdictCard } from "./verdict-card.tsx";
import { VersionMix } from "./version-mix.tsx";
import { WaitingRollouts } from "./waiting-rollouts.tsx";

const INCIDENTS_SHOWN = 8;
const FAILED_SHOWN = 5;

/** The overview of the organization: what is wrong, what waits for a decision, and the state of each fleet. */
export function OverviewPage() {
  const overview = useQuery(query("getOverview"));
  const may_change = useMay("operator");
  return (
    <>
      <PageHeader
        title="Overview"
        label="Overview"
        actions={
          may_change &&
          // Without robots, the page itself has the button that enrolls the first one.
          overview.data?.data.robots.total !== 0 && (
            <>
              <LinkButton to="/enrollment/new">Enroll robots</LinkButton>
              <LinkButton look="primary" icon={Rocket} to="/deployments/new">
                Deploy
              </LinkButton>
            </>
          )
        }
      />
      <QueryState query={overview}>{({ data }) => (data.robots.total === 0 ? <FirstSteps /> : <Found overview={data} />)}</QueryState>
    </>
  );
}

function Found({ overview }: { overview: Overview }) {
  const { robots, deployments, unhealthy_robots } = overview;
  const { verdict, incidents, paused, is_stale } = useVerdict(overview);
  return (
    <>
      <VerdictCard verdict={verdict} />
      {incidents !== undefined && incidents.length > 0 && (
        <Section title="Open incidents" all={{ to: "/incidents" }}>
          <IncidentList incidents={incidents.slice(0, INCIDENTS_SHOWN)} empty="" />
        </Section>
      )}
      <WaitingRollouts paused={paused} overview={overview} />
      <Numbers robots={robots} />
      <DeploymentNumbers deployments={deployments} configs={overview.config_deployments} />
      <FleetStates is_stale={is_stale} />
      <VersionMix />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <div className="min-w-0">
          <FailingChecks robots={unhealthy_robots} total={robots.unhealthy} />
          {robots.failed > 0 && <FailedInstalls total={robots.failed} />}
          <RunningDeployments />
        </div>
        <RecentTimeline />
      </div>
    </>
  );
}

const FIRST_LINES = `rf sites create "Hall 1"
rf fleets create Carts --site "Hall 1"
rf keys new --site "Hall 1" --fleet Carts`;

function FirstSteps() {
  return (
    <EmptyState
      title="No robots yet"
      actions={
        <LinkButton look="primary" to="/enrollment/new">
          Enroll the first robot
        </LinkButton>
      }
      command={FIRST_LINES}
    >
      Create an enrollment key and run its command on the robot. The robot then appears here automatically. To try Roamfleet without a
      robot, start simulated robots with <code className="font-mono whitespace-nowrap">roamfleet swarm</code>.
    </EmptyState>
  );
}

function Numbers({ robots }: Pick<Overview, "robots">) {
  return (
    // On wide screens all figures are on one line, and each is as wide as its text.
    <div className={cx("mb-3 grid grid-cols-2 gap-3 xl:flex", "sm:grid-cols-4")}>
      <Figure label={plural(robots.total, "robot")} value={robots.total} link={{ to: "/robots" }} />
      <Figure label="online" value={robots.online} link={{ to: "/robots", search: { status: "online" } }} />
      <Figure
        label="offline"
        value={robots.offline}
        link={{ to: "/robots", search: { status: "offline" } }}
        tone={robots.offline > 0 ? "text-warn" : ""}
      />
      {robots.never_connected > 0 && (
        <Figure label="never connected" value={robots.never_connected} link={{ to: "/robots", search: { status: "never_connected" } }} />
      )}
      <Figure
        label="unhealthy"
        value={robots.unhealthy}
        link={{ to: "/robots", search: { health: "failing" } }}
        tone={robots.unhealthy > 0 ? "text-bad" : ""}
      />
      <Figure label="release behind" value={robots.behind} link={{ to: "/robots", search: { release_state: "behind" } }} />
      <Figure
        label="config drifted"
        value={robots.drifted}
        link={{ to: "/robots", search: { config_state: "drifted" } }}
        tone={robots.drifted > 0 ? "text-warn" : ""}
      />
      <Figure label="config pending" value={robots.pending} link={{ to: "/configs/drift", search: { state: "pending" } }} />
    </div>
  );
}

/** Counts of all deployments of the organization, independent of the list below. */
function DeploymentNumbers({ deployments, configs }: Pick<Overview, "deployments"> & { configs: Overview["config_deployments"] }) {
  const { in_progress, queued, paused, scheduled, failed, failed_since, following } = deployments;
  const to = (status: string): Destination => ({ to: "/deployments", search: { status } });
  return (
    <div className="mb-6 grid grid-cols-2 gap-3 sm:grid-cols-3 xl:flex">
      <Figure label={`${plural(in_progress, "deployment")} in progress`} value={in_progress} link={to("in_progress")} />
      <Figure label={`${plural(queued, "deployment")} queued`} value={queued} link={to("queued")} />
      <Figure label={`${plural(paused, "deployment")} paused`} value={paused} link={to("paused")} tone={paused > 0 ? "text-warn" : ""} />
      <Figure label={`${plural(scheduled, "deployment")} scheduled`} value={scheduled} link={to("scheduled")} />
      <Figure
        label={`${plural(failed, "deployment")} failed, not rolled back, in 7 days`}
        value={failed}
        link={{ to: "/deployments", search: { status: "failed", since: failed_since } }}
        tone={failed > 0 ? "text-bad" : ""}
      />
      {configs.in_progress > 0 && (
        <Figure
          label={`config ${plural(configs.in_progress, "deployment")} in progress`}
          value={configs.in_progress}
          link={{ to: "/deployments", search: { tab: "configs", status: "in_progress" } }}
        />
      )}
      {following > 0 && (
        <Figure
          label={`${plural(following, "robot")} auto-updating`}
          value={following}
          link={{ to: "/deployments", search: { following: true } }}
        />
      )}
    </div>
  );
}

function FailingChecks({ robots, total }: { robots: readonly { id: string; name: string; failing: readonly string[] }[]; total: number }) {
  return (
    <Section title="Failing checks">
      <CardList items={robots} empty="No failing checks">
        {({ id, name, failing }) => (
          <li key={id}>
            <Link to="/robots/$id" params={{ id }} className="flex items-baseline gap-3 px-4 py-2 hover:bg-hover">
              <TextLine className="max-w-[40%] shrink-0 font-medium">{name}</TextLine>
              <TextLine className="text-bad">{failing.join(", ")}</TextLine>
            </Link>
          </li>
        )}
      </CardList>
      {total > robots.length && (
        <Link to="/robots" search={{ health: "failing" }} className="mt-2 inline-block text-accent underline">
          View all {total.toLocaleString()}
        </Link>
      )}
    </Section>
  );
}

/** Robots whose last update failed, with links to them. */
function FailedInstalls({ total }: { total: number }) {
  const robots = useQuery(query("listRobots", { query: { release_state: "failed", limit: FAILED_SHOWN } }));
  return (
    <Section title="Failed updates" all={total > FAILED_SHOWN && { to: "/robots", search: { release_state: "failed" } }}>
      <QueryState query={robots} rows={2}>
        {({ items }) => (
          <CardList items={items} empty="No failed updates">
            {({ id, name, apps }) => (
              <li key={id}>
                <Link to="/robots/$id" params={{ id }} className="flex items-baseline gap-3 px-4 py-2 hover:bg-hover">
                  <TextLine className="max-w-[40%] shrink-0 font-medium">{name}</TextLine>
                  <TextLine className="text-bad">{failedText(apps)}</TextLine>
                </Link>
              </li>
            )}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}

const failedText = (apps: readonly { app: string; release_state: string; current: { tag: string } | null }[]): string =>
  apps
    .filter(({ release_state }) => release_state === "failed")
    .map(({ app, current }) => `${app}: last update failed, runs ${current?.tag ?? "no release"}`)
    .join("; ");

const LATEST = 6;
/** Deployments with these statuses are listed first. */
const OPEN = ["in_progress", "paused", "queued", "rolling_back", "cancelling"] as const;

/** The latest deployments, running ones first. Leaves out automatic updates of single robots. */
function RunningDeployments() {
  const asked = { limit: LATEST, cause: "request" } as const;
  const latest = useQuery(query("listDeployments", { query: asked }));
  const open = useQueries({ queries: OPEN.map((status) => query("listDeployments", { query: { ...asked, status } })) });
  return (
    <Section title="Deployments">
      <QueryState query={latest}>
        {({ items }) => {
          const first = open.flatMap(({ data }) => data?.items ?? []);
          const shown = [...new Map([...first, ...items].map((one) => [one.id, one])).values()].slice(0, LATEST);
          return (
            <CardList items={shown} empty="No deployments yet">
              {(deployment) => <Item key={deployment.id} deployment={deployment} />}
            </CardList>
          );
        }}
      </QueryState>
    </Section>
  );
}

function Item({ deployment }: { deployment: Deployment }) {
  const { id, release, counts, target_kind } = deployment;
  return (
    <li>
      <Link to="/deployments/$id" params={{ id }} className="block px-4 py-2 hover:bg-hover">
        <span className="flex items-center justify-between gap-3">
          <TextLine className="font-medium">{releaseName(release)}</TextLine>
          <span className="shrink-0">
            <DeploymentStatusBadge deployment={deployment} />
          </span>
        </span>
        <span className="mb-1.5 flex gap-1 text-xs text-muted tabular-nums">
          <TargetName target={deployment} />
          <span className="shrink-0">
            {counts.total > 0 && `· ${counts.applied.toLocaleString()} of ${counts.total.toLocaleString()} applied `}·{" "}
            <When deployment={deployment} />
          </span>
        </span>
        <CountsBar counts={counts} label={`${release.tag} on a ${target_kind}`} />
      </Link>
    </li>
  );
}

function When({ deployment: { status, scheduled_at, started_at, finished_at, created_at } }: { deployment: Deployment }) {
  if (status !== "scheduled") return <Time at={finished_at ?? started_at ?? created_at} />;
  return (
    <>
      starts <Time at={scheduled_at} />
    </>
  );
}
