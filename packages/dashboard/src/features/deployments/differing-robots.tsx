import type { Deployment, DeploymentTarget } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api } from "../../api/client.ts";
import { type Column, DataTable, QueryState, Section, StatusBadge, Text } from "../../ui/index.ts";
import { differingRobots, type RobotDifference, type TargetOutcome } from "./compare.ts";
import { RobotLink } from "./parts.tsx";
import { reasonText } from "./reasons.ts";

const PAGE_ROWS = 1_000;
/** Above this number, robots are not compared individually. */
const ROBOTS_MAX = 20_000;

/** Loads all robots of a deployment once. The comparison needs the complete list, and the deployment has usually ended. */
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
      {of.reason !== null && (
        <Text line className="text-xs text-muted max-sm:hidden">
          {reasonText(of.reason)}
        </Text>
      )}
    </span>
  );
}

/** Lists robots with different results in the two deployments. */
export function DifferingRobots({ a, b }: { a: Deployment; b: Deployment }) {
  const of_a = useOutcomes(a);
  const of_b = useOutcomes(b);
  if (Math.max(a.counts.total, b.counts.total) > ROBOTS_MAX)
    return (
      <Section title="Differing robots">
        <p className="text-muted">Deployments with more than {ROBOTS_MAX.toLocaleString()} robots are not compared robot by robot.</p>
      </Section>
    );
  return (
    <Section title="Differing robots">
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
  if (rows.length === 0) return <p className="text-muted">Every robot has the same result in both.</p>;
  return (
    <>
      <p className="mb-2 text-muted">
        {rows.length.toLocaleString()} of {names.size.toLocaleString()} robots.
      </p>
      <DataTable
        label="Differing robots"
        columns={columns}
        rows={rows}
        rowKey={keyOf}
        height={`${Math.min(14, rows.length) * 40 + 38}px`}
      />
    </>
  );
}
