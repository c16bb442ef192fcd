import type { Release, Robot } from "@roamfleet/protocol/routes";
import { Link, useNavigate } from "@tanstack/react-router";
import { useLivePages } from "../../api/live-pages.ts";
import { usePlaces } from "../../api/places.ts";
import { type Column, DataTable, ErrorState, HealthBadge, LinkButton, Section, Skeleton, StatusBadge, Text } from "../../ui/index.ts";

const keyOf = ({ id }: Robot): string => id;

const COLUMNS: readonly Column<Robot>[] = [
  {
    name: "Robot",
    width: "minmax(6rem, 2fr)",
    cell: (robot) => (
      <Link to="/robots/$id" params={{ id: robot.id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{robot.name}</Text>
      </Link>
    ),
  },
  { name: "Fleet", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ fleet_id }) => <FleetName id={fleet_id} /> },
  { name: "Status", width: "7.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Health", width: "6rem", priority: 2, cell: (robot) => <HealthBadge robot={robot} /> },
];

function FleetName({ id }: { id: string }) {
  const { fleet_names } = usePlaces();
  return <Text line>{fleet_names.get(id)}</Text>;
}

/** The robots that run a release. */
export function ReleaseRobots({ release: { id, app } }: { release: Release }) {
  const navigate = useNavigate();
  const { query, rows, has_more, onEnd, onRange } = useLivePages("listRobots", keyOf, { query: { release_id: id } });
  const count = has_more ? `${rows.length}+` : String(rows.length);
  return (
    <Section
      title={query.data === undefined || rows.length === 0 ? "Installed on" : `Installed on ${count} robot${count === "1" ? "" : "s"}`}
      actions={
        rows.length > 0 && (
          <LinkButton look="quiet" to="/robots" search={{ release_id: id }}>
            View all
          </LinkButton>
        )
      }
    >
      {query.data === undefined ? (
        query.isError ? (
          <ErrorState error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <Skeleton rows={3} />
        )
      ) : (
        <DataTable
          label={`Robots that run this release as ${app}`}
          columns={COLUMNS}
          rows={rows}
          rowKey={keyOf}
          onOpen={(robot) => void navigate({ to: "/robots/$id", params: { id: robot.id } })}
          has_more={has_more}
          onEnd={onEnd}
          onRange={onRange}
          empty={<p className="text-muted">Not installed on any robot</p>}
        />
      )}
    </Section>
  );
}

/** The fleets whose current release it is. */
export function ReleaseFleets({ release: { id } }: { release: Release }) {
  const { fleets, site_names, is_read } = usePlaces();
  const having = fleets.filter(({ desired }) => Object.values(desired).some((release) => release.id === id));
  if (!is_read || having.length === 0) return null;
  return (
    <Section title="Current release of">
      <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
        {having.map((fleet) => (
          <li key={fleet.id} className="flex items-center justify-between gap-3 px-4 py-2">
            <Link to="/fleets/$id" params={{ id: fleet.id }} className="min-w-0 font-medium hover:underline">
              <Text line>{fleet.name}</Text>
            </Link>
            <span className="shrink-0 text-xs text-muted tabular-nums">
              <bdi>{site_names.get(fleet.site_id)}</bdi> · {fleet.online_count} of {fleet.robot_count} robots online
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
