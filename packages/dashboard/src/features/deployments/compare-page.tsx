import type { Deployment, DeploymentTarget } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ArrowLeftRight } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { api } from "../../api/client.ts";
import { type Places, query, usePlaces } from "../../api/queries.ts";
import {
  Badge,
  type Column,
  DataTable,
  DeploymentStatusBadge,
  durationText,
  EmptyState,
  LinkButton,
  PageHeader,
  QueryState,
  Section,
  StatusBadge,
  Text,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { releaseName } from "../robots/robot-text.ts";
import { ActorName, CountsBar, RobotLink, TargetLink } from "./deployment-parts.tsx";
import {
  differingRobots,
  policyDifferences,
  reasonText,
  type RobotDifference,
  robots,
  secondsOf,
  type TargetOutcome,
} from "./deployment-text.ts";

const route = getRouteApi("/app/deployments/compare");

/** Compares two deployments side by side. */
export function ComparePage() {
  const { a, b } = route.useSearch();
  return (
    <>
      <PageHeader
        title="Compare deployments"
        label="Compare deployments"
        actions={
          <>
            <LinkButton to="/deployments">Go to deployments</LinkButton>
            {a !== undefined && b !== undefined && (
              <LinkButton to="/deployments/compare" search={{ a: b, b: a }} icon={ArrowLeftRight}>
                Swap
              </LinkButton>
            )}
          </>
        }
      />
      {a === undefined || b === undefined ? (
        <EmptyState title="No deployments selected">Select two deployments in the list, then compare them.</EmptyState>
      ) : (
        <Both a={a} b={b} />
      )}
    </>
  );
}

function Both({ a, b }: { a: string; b: string }) {
  const first = useQuery(query("getDeployment", { params: { id: a } }));
  const second = useQuery(query("getDeployment", { params: { id: b } }));
  const places = usePlaces();
  return (
    <QueryState query={first}>
      {({ data: one }) => (
        <QueryState query={second}>
          {({ data: other }) => (
            <>
              <Facts a={one} b={other} places={places} />
              <Policies a={one} b={other} />
              <DifferingRobots a={one} b={other} />
            </>
          )}
        </QueryState>
      )}
    </QueryState>
  );
}

interface Pair {
  a: Deployment;
  b: Deployment;
}

const COUNTS = ["total", "applied", "failed", "rolled_back", "cancelled", "active", "queued", "pending"] as const;
const COUNT_NAMES: Record<(typeof COUNTS)[number], string> = {
  total: "Robots",
  applied: "Applied",
  failed: "Failed",
  rolled_back: "Rolled back",
  cancelled: "Cancelled",
  active: "Updating",
  queued: "Queued",
  pending: "In later waves",
};

function tookText(deployment: Deployment): string {
  const seconds = secondsOf(deployment);
  if (seconds !== undefined) return durationText(seconds);
  return deployment.started_at === null ? "not started" : "not finished";
}

function Facts({ a, b, places }: Pair & { places: Places }) {
  const row = (label: string, of: (deployment: Deployment) => ReactNode, same: boolean): ComparedRow => ({
    label,
    a: of(a),
    b: of(b),
    same,
  });
  const rows: ComparedRow[] = [
    row("Release", ({ release }) => <Text>{releaseName(release)}</Text>, a.release_id === b.release_id),
    row(
      "Target",
      (one) => <TargetLink target={one} places={places} />,
      a.fleet_id === b.fleet_id && a.robot_id === b.robot_id && a.selection === b.selection,
    ),
    row(
      "Status",
      (deployment) => <DeploymentStatusBadge deployment={deployment} />,
      a.status === b.status && a.awaiting_promotion === b.awaiting_promotion,
    ),
    row("Reason", ({ reason }) => <Text>{reason === null ? null : reasonText(reason)}</Text>, a.reason === b.reason),
    row("Created by", ({ created_by }) => <ActorName actor={created_by} />, a.created_by.id === b.created_by.id),
    row("Started", ({ started_at }) => (started_at === null ? "not started" : <Time at={started_at} exact />), true),
    row("Duration", tookText, tookText(a) === tookText(b)),
    row(
      "Outcome",
      ({ counts, release }) => (
        <div className="pt-1.5">
          <CountsBar counts={counts} label={`Robots of ${release.tag}`} />
        </div>
      ),
      true,
    ),
    ...COUNTS.filter((name) => a.counts[name] > 0 || b.counts[name] > 0).map((name) =>
      row(COUNT_NAMES[name], ({ counts }) => counts[name].toLocaleString(), a.counts[name] === b.counts[name]),
    ),
  ];
  return (
    <Section title="Results">
      <Compared a={a} b={b} rows={rows} />
    </Section>
  );
}

function Policies({ a, b }: Pair) {
  const differences = policyDifferences(a.rollout, b.rollout);
  return (
    <Section title="Policy">
      {differences.length === 0 ? (
        <p className="text-muted">Both deployments have the same policy.</p>
      ) : (
        <Compared
          a={a}
          b={b}
          rows={differences.map(({ name, a: one, b: other }) => ({
            label: name,
            a: one,
            b: other,
            same: false,
          }))}
        />
      )}
    </Section>
  );
}

interface ComparedRow {
  label: string;
  a: ReactNode;
  b: ReactNode;
  same: boolean;
}

function Compared({ a, b, rows }: Pair & { rows: readonly ComparedRow[] }) {
  return (
    <div className="overflow-hidden rounded-lg border border-line">
      <table className="w-full table-fixed">
        <thead className="bg-sunken text-left text-xs text-muted">
          <tr>
            <th scope="col" className="w-[26%] px-3 py-2 font-medium">
              <span className="sr-only">Property</span>
            </th>
            {[a, b].map((one, index) => (
              <th key={index} scope="col" className="px-3 py-2 font-medium">
                <Link to="/deployments/$id" params={{ id: one.id }} className="text-accent underline">
                  <TextLine>{one.release.tag === "" ? one.id : one.release.tag}</TextLine>
                </Link>
                <Time at={one.created_at} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ label, a: first, b: second, same }) => (
            <tr key={label} className="border-t border-line align-top">
              <th scope="row" className="px-3 py-2 text-left font-normal text-muted">
                {label} {!same && <Badge tone="info">differs</Badge>}
              </th>
              <td className="min-w-0 px-3 py-2 [overflow-wrap:anywhere] [&_time]:whitespace-normal">{first}</td>
              <td className="min-w-0 px-3 py-2 [overflow-wrap:anywhere] [&_time]:whitespace-normal">{second}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const PAGE_ROWS = 1_000;
/** Maximum robots of a deployment that are compared individually. */
const ROBOTS_MAX = 20_000;

/** Loads all robots of a deployment. They are loaded only once, because the comparison needs all and the deployment has usually ended. */
function useOutcomes({ id, updated_at, counts }: Deployment) {
  return useQuery({
    queryKey: ["compareTargets", id, updated_at] as const,
    queryFn: async ({ signal }) => {
      const found: DeploymentTarget[] = [];
      let cursor: string | undefined;
      do {
        const query = { limit: PAGE_ROWS, ...(cursor === undefined ? {} : { cursor }) };
        const { body } = await api.call("listDeploymentTargets", { params: { id }, query, signal });
        found.push(...body.items);
        cursor = body.next_cursor ?? undefined;
      } while (cursor !== undefined);
      return found;
    },
    enabled: counts.total <= ROBOTS_MAX,
    staleTime: "static",
  });
}

const keyOf = ({ robot_id }: RobotDifference): string => robot_id;

function Outcome({ of }: { of: TargetOutcome | undefined }) {
  if (of === undefined) return <span className="text-muted">not included</span>;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <StatusBadge status={of.status} />
      {of.reason !== null && <TextLine className="text-xs text-muted max-sm:hidden">{reasonText(of.reason)}</TextLine>}
    </span>
  );
}

/** Lists robots with different results in the two deployments. */
function DifferingRobots({ a, b }: { a: Deployment; b: Deployment }) {
  const of_a = useOutcomes(a);
  const of_b = useOutcomes(b);
  if (Math.max(a.counts.total, b.counts.total) > ROBOTS_MAX)
    return (
      <Section title="Robots with different results">
        <p className="text-muted">Deployments with more than {ROBOTS_MAX.toLocaleString()} robots are not compared robot by robot.</p>
      </Section>
    );
  return (
    <Section title="Robots with different results">
      <QueryState query={of_a}>
        {(first) => <QueryState query={of_b}>{(second) => <Differences a={a} b={b} of_a={first} of_b={second} />}</QueryState>}
      </QueryState>
    </Section>
  );
}

const columnsOf = (a: Deployment, b: Deployment, names: ReadonlyMap<string, string>): Column<RobotDifference>[] => [
  { name: "Robot", width: "minmax(0, 1fr)", cell: ({ robot_id }) => <RobotLink id={robot_id} name={names.get(robot_id)} /> },
  { name: `First: ${a.release.tag}`, width: "minmax(0, 1.3fr)", cell: (row) => <Outcome of={row.a} /> },
  { name: `Second: ${b.release.tag}`, width: "minmax(0, 1.3fr)", cell: (row) => <Outcome of={row.b} /> },
];

interface Outcomes {
  a: Deployment;
  b: Deployment;
  of_a: readonly DeploymentTarget[];
  of_b: readonly DeploymentTarget[];
}

function Differences({ a, b, of_a, of_b }: Outcomes) {
  const rows = useMemo(() => differingRobots(of_a, of_b), [of_a, of_b]);
  const names = useMemo(() => new Map([...of_a, ...of_b].map((target) => [target.robot_id, target.robot_name])), [of_a, of_b]);
  const columns = useMemo(() => columnsOf(a, b, names), [a, b, names]);
  if (rows.length === 0) return <p className="text-muted">Every robot has the same result in both deployments.</p>;
  return (
    <>
      <p className="mb-2 text-muted">
        {rows.length.toLocaleString()} of {robots(names.size)} with different results.
      </p>
      <DataTable
        label="Robots with different results"
        columns={columns}
        rows={rows}
        rowKey={keyOf}
        height={`${Math.min(14, rows.length) * 40 + 38}px`}
      />
    </>
  );
}
