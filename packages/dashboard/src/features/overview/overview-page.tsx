import { useQuery } from "@tanstack/react-query";
import { Link, type LinkProps } from "@tanstack/react-router";
import { Rocket } from "lucide-react";
import type { ReactNode } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Card, cx, EmptyState, LinkButton, PageHeader, QueryState, Section, Text, Time } from "../../ui/index.ts";
import { RunningDeployments } from "./running-deployments.tsx";

const RECENT = 12;

/** The overview of the organization. Each number links to what it counts. */
export function OverviewPage() {
  const overview = useQuery(query("getOverview"));
  const may_change = useMay("operator");
  return (
    <>
      <PageHeader
        title="Overview"
        label="Overview"
        actions={
          may_change && (
            <>
              <LinkButton to="/enrollment/new">Enroll robots</LinkButton>
              <LinkButton look="primary" icon={<Rocket size={14} aria-hidden />} to="/deployments/new">
                Deploy
              </LinkButton>
            </>
          )
        }
      />
      <QueryState query={overview}>
        {({ data }) =>
          data.robots.total === 0 ? (
            <FirstSteps />
          ) : (
            <>
              <Numbers robots={data.robots} />
              <DeploymentNumbers deployments={data.deployments} />
              <div className="grid gap-x-6 lg:grid-cols-2">
                <div className="min-w-0">
                  <RunningDeployments />
                  <FailingChecks robots={data.unhealthy_robots} total={data.robots.unhealthy} />
                </div>
                <RecentTimeline />
              </div>
            </>
          )
        }
      </QueryState>
    </>
  );
}

function FirstSteps() {
  return (
    <EmptyState
      title="No robots yet"
      actions={
        <LinkButton look="primary" to="/enrollment/new">
          Enroll the first robot
        </LinkButton>
      }
      command="rf keys new --site SITE_ID --fleet FLEET_ID"
    >
      Create an enrollment key and run its command on the robot. The robot then appears here automatically. To try Roamfleet without a
      robot, start simulated robots with <code className="font-mono">roamfleet swarm</code>.
    </EmptyState>
  );
}

interface Counts {
  robots: Record<"total" | "online" | "offline" | "never_connected" | "unhealthy" | "behind" | "drifted", number>;
  deployments: Record<"scheduled" | "queued" | "in_progress" | "paused" | "failed" | "following", number> & { failed_since: string };
}

function Numbers({ robots }: Pick<Counts, "robots">) {
  return (
    // On wide screens all figures are on one line, each as wide as its text.
    <div className={cx("mb-3 grid grid-cols-2 gap-3 xl:flex", robots.never_connected > 0 ? "sm:grid-cols-3" : "sm:grid-cols-4")}>
      <Figure label="robots" value={robots.total} link={{ to: "/robots" }} />
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
      <Figure label="behind" value={robots.behind} link={{ to: "/robots", search: { release_state: "behind" } }} />
      <Figure
        label="config drifted"
        value={robots.drifted}
        link={{ to: "/robots", search: { config_state: "drifted" } }}
        tone={robots.drifted > 0 ? "text-warn" : ""}
      />
    </div>
  );
}

/** Counts of all deployments of the organization, independent of the list below. */
function DeploymentNumbers({ deployments }: Pick<Counts, "deployments">) {
  const { in_progress, queued, paused, scheduled, failed, failed_since, following } = deployments;
  const to = (status: string): Destination => ({ to: "/deployments", search: { status } });
  return (
    <div className="mb-6 grid grid-cols-2 gap-3 sm:grid-cols-3 xl:flex">
      <Figure label="deployments running" value={in_progress} link={to("in_progress")} />
      <Figure label="deployments queued" value={queued} link={to("queued")} />
      <Figure label="deployments paused" value={paused} link={to("paused")} tone={paused > 0 ? "text-warn" : ""} />
      <Figure label="deployments scheduled" value={scheduled} link={to("scheduled")} />
      <Figure
        label="deployments failed, 7 days"
        value={failed}
        link={{ to: "/deployments", search: { status: "failed", since: failed_since } }}
        tone={failed > 0 ? "text-bad" : ""}
      />
      {following > 0 && (
        <Figure label="robots auto-updating" value={following} link={{ to: "/deployments", search: { following: true } }} />
      )}
    </div>
  );
}

type Destination = Pick<LinkProps, "to"> & { search?: object };

function Figure({ label, value, link, tone = "" }: { label: string; value: number; link: Destination; tone?: string }) {
  return (
    <Link
      {...(link as LinkProps)}
      className="rounded-lg border border-line bg-raised px-4 py-3 hover:bg-hover max-sm:odd:last:col-span-2 xl:flex-auto xl:px-3"
    >
      <span className={cx("block text-2xl font-semibold tabular-nums", tone)}>{value.toLocaleString()}</span>
      <span className="block text-xs text-muted">{label}</span>
    </Link>
  );
}

function FailingChecks({ robots, total }: { robots: readonly { id: string; name: string; failing: readonly string[] }[]; total: number }) {
  return (
    <Section title="Failing checks">
      {robots.length === 0 ? (
        <p className="text-muted">No failing checks</p>
      ) : (
        <Card className="!p-0">
          <ul className="divide-y divide-line">
            {robots.map(({ id, name, failing }) => (
              <li key={id}>
                <Link to="/robots/$id" params={{ id }} className="flex items-baseline gap-3 px-4 py-2 hover:bg-hover">
                  <Text line className="max-w-[40%] shrink-0 font-medium">
                    {name}
                  </Text>
                  <Text line className="text-bad">
                    {failing.join(", ")}
                  </Text>
                </Link>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {total > robots.length && (
        <Link to="/robots" search={{ health: "failing" }} className="mt-2 inline-block text-accent underline">
          View all {total.toLocaleString()}
        </Link>
      )}
    </Section>
  );
}

function RecentTimeline() {
  const timeline = useQuery(query("listTimeline", { query: { limit: RECENT } }));
  return (
    <Section title="Recent activity">
      <QueryState query={timeline}>
        {({ items }): ReactNode =>
          items.length === 0 ? (
            <p className="text-muted">No activity yet</p>
          ) : (
            <Card className="!p-0">
              <ol className="divide-y divide-line">
                {items.map(({ id, at, robot_id, robot_name, summary }) => (
                  <li key={id} className="flex items-baseline gap-3 px-4 py-2">
                    <span className="w-24 shrink-0 text-xs text-muted">
                      <Time at={at} />
                    </span>
                    <Link to="/robots/$id" params={{ id: robot_id }} className="max-w-[35%] min-w-0 shrink-0 hover:underline">
                      <Text line>{robot_name}</Text>
                    </Link>
                    <Text line className="text-muted">
                      {summary}
                    </Text>
                  </li>
                ))}
              </ol>
            </Card>
          )
        }
      </QueryState>
    </Section>
  );
}
