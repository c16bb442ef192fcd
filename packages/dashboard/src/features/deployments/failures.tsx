import type { Deployment, DeploymentTarget } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { CardList, combineLoaded, NameLink, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { reasonAdvice, reasonText, robots } from "./deployment-text.ts";

const FAILED_STATUSES = ["failed", "rolled_back"] as const;
/** Failed robots of each status that are grouped. The table below lists all of them. */
const TARGETS_MAX = 100;
const ROBOTS_SHOWN = 3;
const LOG_LINES = 5;
/** The records of a failure are within this time before the robot's last report. */
const LOG_BEFORE_MS = 10 * 60_000;
const LOG_AFTER_MS = 60_000;

/** The failed robots of a deployment, grouped by reason, each group with the log of one of its robots. Nothing if no robot failed. */
export function Failures({ deployment: { id, counts, fleet_id } }: { deployment: Deployment }) {
  const failures = counts.failed + counts.rolled_back;
  const lists = useQueries({
    queries: FAILED_STATUSES.map((status) => ({
      ...query("listDeploymentTargets", { params: { id }, query: { status, limit: TARGETS_MAX } }),
      enabled: counts[status] > 0,
    })),
  });
  if (failures === 0) return null;
  const targets = lists.flatMap(({ data }) => data?.items ?? []);
  const has_more = lists.some(({ data }) => data !== undefined && data.next_cursor !== null);
  const groups = [...Map.groupBy(targets, ({ reason, status }) => reason ?? status).entries()].toSorted(
    ([, a], [, b]) => b.length - a.length,
  );
  const needed = lists.filter((_, at) => counts[FAILED_STATUSES[at]!] > 0);
  const is_read = needed.every(({ data }) => data !== undefined);
  if (is_read && groups.length === 0) return null;
  return (
    <Section title="Failures">
      <QueryState query={combineLoaded(needed, is_read ? groups : undefined)} rows={2}>
        {(found) => (
          <CardList items={found}>
            {([reason, of]) => (
              <li key={reason} className="px-4 py-3">
                <FailureGroup deployment_id={id} fleet_id={fleet_id} reason={reason} targets={of} />
              </li>
            )}
          </CardList>
        )}
      </QueryState>
      {has_more && (
        <p className="mt-2 text-sm text-muted">{`Groups are those of the first ${targets.length.toLocaleString()} of ${failures.toLocaleString()} failures.`}</p>
      )}
    </Section>
  );
}

interface FailureGroupProps {
  deployment_id: string;
  fleet_id: string | null;
  reason: string;
  targets: readonly DeploymentTarget[];
}

function FailureGroup({ deployment_id, fleet_id, reason, targets }: FailureGroupProps) {
  const [first] = targets;
  const advice = reasonAdvice(reason);
  return (
    <>
      <p className="font-medium">
        <span className="text-bad">{robots(targets.length)}</span>
        {": "}
        <Text>{reasonText(reason)}</Text>
      </p>
      {advice !== undefined && <p className="text-sm text-muted">{advice}</p>}
      <ul className="mt-1">
        {targets.slice(0, ROBOTS_SHOWN).map(({ id, robot_id, robot_name, status, updated_at }) => (
          <li key={id} className="flex min-w-0 flex-wrap items-center gap-x-3">
            <NameLink to="/robots/$id" params={{ id: robot_id }} name={robot_name} className="min-h-6 font-medium" />
            <StatusBadge status={status} />
            <span className="text-xs text-muted">
              <Time at={updated_at} />
            </span>
            <Link
              to="/robots/$id/logs"
              params={{ id: robot_id }}
              search={spanOf(updated_at)}
              className="inline-flex min-h-6 items-center text-accent underline"
            >
              Log<span className="sr-only">{` of ${robot_name} at that time`}</span>
            </Link>
          </li>
        ))}
      </ul>
      {targets.length > ROBOTS_SHOWN && (
        <p className="text-sm text-muted">{`and ${(targets.length - ROBOTS_SHOWN).toLocaleString()} more, listed below`}</p>
      )}
      {first !== undefined && fleet_id !== null && (
        <Link
          to="/logs"
          search={{ fleet_id, level: "warn", ...spanOf(first.updated_at) }}
          className="inline-flex min-h-6 items-center text-sm text-accent underline"
        >
          Warnings and errors of the fleet at that time
        </Link>
      )}
      {first !== undefined && <Excerpt deployment_id={deployment_id} target={first} />}
    </>
  );
}

const spanOf = (at: string): { since: string; until: string } => ({
  since: new Date(Date.parse(at) - LOG_BEFORE_MS).toISOString(),
  until: new Date(Date.parse(at) + LOG_AFTER_MS).toISOString(),
});

/** What a robot reported about its failure, and its warnings and errors at that time. Nothing if there are none. */
function Excerpt({ deployment_id, target: { robot_id, robot_name, updated_at } }: { deployment_id: string; target: DeploymentTarget }) {
  const events = useQuery(query("listDeploymentEvents", { params: { id: deployment_id }, query: { robot_id, limit: TARGETS_MAX } }));
  const log = useQuery(
    query("listRobotLogs", { params: { id: robot_id }, query: { ...spanOf(updated_at), level: "warn", limit: LOG_LINES } }),
  );
  const reported = events.data?.items.findLast(({ data }) => typeof data.robot_says === "string" || typeof data.detail === "string")?.data;
  const said = reported?.robot_says ?? reported?.detail;
  const records = log.data?.items ?? [];
  if (typeof said !== "string" && records.length === 0) return null;
  return (
    <div
      className="mt-2 max-h-48 overflow-y-auto rounded-md bg-sunken px-3 py-2 font-mono text-xs"
      tabIndex={0}
      role="region"
      aria-label={`Log excerpt of ${robot_name.slice(0, 80)}`}
    >
      {typeof said === "string" && (
        <p className="font-semibold">
          <Text>{said.slice(0, SAID_MAX)}</Text>
        </p>
      )}
      {records.map(({ seq, at, level, message }) => (
        <p key={seq}>
          <Time at={at} exact /> {level} <Text>{message.slice(0, SAID_MAX)}</Text>
        </p>
      ))}
    </div>
  );
}

/** Characters of a message that are shown. The log contains all of it. */
const SAID_MAX = 500;
