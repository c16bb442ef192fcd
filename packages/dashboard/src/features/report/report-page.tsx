import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { RefreshCw } from "lucide-react";
import { useMemo } from "react";
import { query } from "../../api/queries.ts";
import { timeOf } from "../../search.ts";
import { Button, copyAsRf, Menu, PageHeader, QueryState, Segments, shellLine, Time, useFilters } from "../../ui/index.ts";
import { ChangeItem, DeploymentItem, Group, IncidentItem, Part, RobotsItem } from "./report-parts.tsx";

const route = getRouteApi("/app/report");
const DEFAULT = "8h";
const PERIODS = [
  { value: "8h", label: "8 h", title: "The last 8 hours" },
  { value: "24h", label: "24 h", title: "The last 24 hours" },
  { value: "7d", label: "7 d", title: "The last 7 days" },
];

/** A shift report: what broke, what is open and what changed in a period. It is a snapshot, which only "Refresh" reads again. */
export function ReportPage() {
  const { search, change } = useFilters(route.useSearch());
  const period = search.since ?? DEFAULT;
  // The default period is that of the server, so that it moves with each refresh.
  const since = useMemo(() => (period === DEFAULT ? undefined : timeOf(period, Date.now())), [period]);
  const report = useQuery({ ...query("getReport", { query: { since } }), staleTime: 0 });
  return (
    <>
      <PageHeader
        title="Report"
        label="Report"
        meta={
          report.data !== undefined && (
            <span>
              From <Time at={report.data.data.since} exact /> to <Time at={report.data.data.until} exact />
            </span>
          )
        }
        actions={
          <>
            <Segments label="Period" options={PERIODS} value={period} onChange={(value) => change({ since: value })} />
            <Button icon={RefreshCw} busy={report.isRefetching && report.failureCount === 0} onClick={() => void report.refetch()}>
              Refresh
            </Button>
            <Menu label="More" entries={[copyAsRf(shellLine("rf", "report", { since: period }))]} />
          </>
        }
      />
      <QueryState query={report}>
        {({ data: { changed, broken, open } }) => (
          <div className="grid gap-x-6 lg:grid-cols-2">
            <div className="min-w-0">
              <Group title="What broke" empty="Nothing in this period" parts={[broken.incidents, broken.deployments, broken.robots]}>
                <Part title="New incidents" part={broken.incidents} Item={IncidentItem} />
                <Part title="Failed deployments" part={broken.deployments} Item={DeploymentItem} />
                <Part title="Robots with failures" part={broken.robots} Item={RobotsItem} />
              </Group>
              <Group title="What is open" empty="Nothing is open" parts={[open.incidents, open.deployments, open.robots]}>
                <Part title="Open incidents" part={open.incidents} Item={IncidentItem} />
                <Part title="Unfinished deployments" part={open.deployments} Item={DeploymentItem} />
                <Part title="Offline, unhealthy or quarantined robots" part={open.robots} Item={RobotsItem} />
              </Group>
            </div>
            <Group title="What changed" empty="Nothing in this period" parts={Object.values(changed)}>
              <Part title="Deployments started" part={changed.started_deployments} Item={DeploymentItem} />
              <Part title="Deployments finished" part={changed.finished_deployments} Item={DeploymentItem} />
              <Part title="Releases" part={changed.releases} Item={ChangeItem} />
              <Part title="Configs" part={changed.configs} Item={ChangeItem} />
              {changed.people !== null && <Part title="People and settings" part={changed.people} Item={ChangeItem} />}
            </Group>
          </div>
        )}
      </QueryState>
    </>
  );
}
