import type { Deployment, Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { Bytes, Card, LinkButton, Progress, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { reasonText, waitingText } from "../deployments/index.ts";
import { releaseName } from "./release-name.ts";

const SHOWN = 5;

/** The latest deployments that include this robot, with the progress of running ones. */
export function RobotDeployments({ robot: { id: robot_id, fleet_id } }: { robot: Robot }) {
  const own = useQuery(query("listDeployments", { query: { robot_id, limit: SHOWN } }));
  const of_fleet = useQuery(query("listDeployments", { query: { fleet_id, limit: SHOWN } }));
  const items = latest([...(own.data?.items ?? []), ...(of_fleet.data?.items ?? [])]);
  return (
    <Section
      title="Deployments"
      actions={
        items.length > 0 && (
          <LinkButton look="quiet" to="/deployments" search={{ robot_id }}>
            View all
          </LinkButton>
        )
      }
    >
      {own.data !== undefined && of_fleet.data !== undefined && items.length === 0 && <p className="text-muted">No deployments yet</p>}
      {items.length > 0 && (
        <Card className="!p-0">
          <ul className="divide-y divide-line">
            {items.map((deployment) => (
              <Item key={deployment.id} deployment={deployment} robot_id={robot_id} />
            ))}
          </ul>
        </Card>
      )}
    </Section>
  );
}

const latest = (deployments: readonly Deployment[]): Deployment[] =>
  deployments.toSorted((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at)).slice(0, SHOWN);

function Item({ deployment, robot_id }: { deployment: Deployment; robot_id: string }) {
  const { id, release, created_at, finished_at, target_kind } = deployment;
  const targets = useQuery(query("listDeploymentTargets", { params: { id }, query: { robot_id, limit: 1 } }));
  const target = targets.data?.items[0];
  // The robot joined the fleet after the deployment ended.
  if (targets.data !== undefined && target === undefined && finished_at !== null) return null;
  return (
    <li className="px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Link to="/deployments/$id" params={{ id }} className="min-w-0 flex-1 font-medium hover:underline">
          <Text line>{releaseName(release)}</Text>
        </Link>
        <span className="text-xs text-muted">
          {target_kind === "fleet" ? "fleet, " : "direct, "}
          <Time at={finished_at ?? created_at} />
        </span>
        <StatusBadge status={target?.status ?? deployment.status} />
      </div>
      {target?.reason != null && <p className="text-xs text-muted">{reasonText(target.reason)}</p>}
      {target?.waiting_for != null && <p className="text-xs text-muted">{waitingText(target.waiting_for)}</p>}
      {target?.progress != null && target.status === "downloading" && (
        <div className="mt-1.5 flex items-center gap-3 text-xs text-muted">
          <Progress
            label="Download"
            total={target.progress.bytes_total}
            parts={[{ value: target.progress.bytes_done, tone: "info", label: "bytes" }]}
          />
          <Bytes count={target.progress.bytes_done} />
        </div>
      )}
    </li>
  );
}
