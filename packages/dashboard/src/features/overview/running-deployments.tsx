import type { Deployment } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { Card, Progress, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { releaseName } from "../robots/index.ts";

const LATEST = 6;
/** Statuses that are listed first. */
const OPEN = ["in_progress", "paused", "queued", "rolling_back", "cancelling"] as const;

/** The latest deployments, running ones first. Leaves out automatic updates of single robots. */
export function RunningDeployments() {
  const asked = { limit: LATEST, cause: "request" } as const;
  const latest = useQuery(query("listDeployments", { query: asked }));
  const open = useQueries({ queries: OPEN.map((status) => query("listDeployments", { query: { ...asked, status } })) });
  return (
    <Section title="Deployments">
      <QueryState query={latest}>
        {({ items }) => {
          const first = open.flatMap(({ data }) => data?.items ?? []);
          const shown = [...new Map([...first, ...items].map((one) => [one.id, one])).values()].slice(0, LATEST);
          if (shown.length === 0) return <p className="text-muted">No deployments yet</p>;
          return (
            <Card className="!p-0">
              <ul className="divide-y divide-line">
                {shown.map((deployment) => (
                  <Item key={deployment.id} deployment={deployment} />
                ))}
              </ul>
            </Card>
          );
        }}
      </QueryState>
    </Section>
  );
}

function Item({ deployment }: { deployment: Deployment }) {
  const { id, release, status, counts, target_kind } = deployment;
  return (
    <li>
      <Link to="/deployments/$id" params={{ id }} className="block px-4 py-2 hover:bg-hover">
        <span className="flex items-center justify-between gap-3">
          <Text line className="font-medium">
            {releaseName(release)}
          </Text>
          <span className="shrink-0">
            <StatusBadge status={status} />
          </span>
        </span>
        <span className="mb-1.5 flex gap-1 text-xs text-muted tabular-nums">
          <Target deployment={deployment} />
          <span className="shrink-0">
            {counts.total > 0 && `· ${counts.applied.toLocaleString()} of ${counts.total.toLocaleString()} `}·{" "}
            <When deployment={deployment} />
          </span>
        </span>
        <Progress
          label={`${release.tag} on a ${target_kind}`}
          total={counts.total}
          parts={[
            { value: counts.applied, tone: "ok", label: "applied" },
            { value: counts.rolled_back, tone: "warn", label: "rolled back" },
            { value: counts.failed, tone: "bad", label: "failed" },
            { value: counts.cancelled, tone: "idle", label: "cancelled" },
            { value: counts.active, tone: "info", label: "in progress" },
          ]}
        />
      </Link>
    </li>
  );
}

/** The name of the target. */
function Target({ deployment: { fleet_id, robot_id } }: { deployment: Deployment }) {
  const { fleet_names } = usePlaces();
  const robot = useQuery({ ...query("getRobot", { params: { id: robot_id ?? "" } }), enabled: robot_id !== null }).data?.data;
  const name = fleet_id === null ? (robot?.name ?? "one robot") : (fleet_names.get(fleet_id) ?? "a fleet");
  return <Text line>{`to ${name}`}</Text>;
}

function When({ deployment: { status, scheduled_at, started_at, finished_at, created_at } }: { deployment: Deployment }) {
  if (status !== "scheduled") return <Time at={finished_at ?? started_at ?? created_at} />;
  return (
    <>
      starts <Time at={scheduled_at} />
    </>
  );
}
