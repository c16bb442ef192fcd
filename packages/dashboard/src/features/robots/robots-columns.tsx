import type { Robot } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { ArrowRight, TriangleAlert } from "lucide-react";
import { type Column, HealthBadge, StatusBadge, Text, Time } from "../../ui/index.ts";
import type { Places } from "./place-names.ts";

/** Returns the columns of the table. The names of fleets and sites are loaded separately. */
export const robotsColumns = ({ fleetName, siteName }: Pick<Places, "fleetName" | "siteName">): readonly Column<Robot>[] => [
  {
    name: "Name",
    width: "minmax(8rem, 2fr)",
    text: ({ name }) => name,
    cell: ({ id, name }) => (
      <Link to="/robots/$id" params={{ id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{name}</Text>
      </Link>
    ),
  },
  {
    name: "Status",
    width: "minmax(8.5rem, 1fr)",
    cell: ({ status, health }) => (
      <span className="flex items-center gap-1.5">
        <StatusBadge status={status} />
        {/* For narrow screens, which have no health column. */}
        {status === "online" && health === "failing" && (
          <TriangleAlert size={16} role="img" aria-label="failing" className="shrink-0 text-bad sm:hidden" />
        )}
      </span>
    ),
  },
  {
    name: "Health",
    width: "minmax(6rem, 1fr)",
    priority: 2,
    cell: (robot) => <HealthBadge robot={robot} />,
  },
  {
    name: "Fleet and site",
    width: "minmax(8rem, 3fr)",
    priority: 3,
    cell: ({ fleet_id, site_id }) => (
      <Text line className="text-muted">
        {`${fleetName(fleet_id) ?? fleet_id} · ${siteName(site_id) ?? site_id}`}
      </Text>
    ),
  },
  { name: "Release", width: "minmax(9rem, 2fr)", priority: 2, cell: (robot) => <ReleaseCell {...robot} /> },
  { name: "Config", width: "minmax(6rem, 1fr)", priority: 3, cell: ({ config_state }) => <StatusBadge status={config_state} /> },
  {
    name: "Last seen",
    width: "minmax(6rem, 1fr)",
    priority: 3,
    align: "right",
    cell: ({ last_seen_at, status }) => (status === "online" ? <span className="text-muted">now</span> : <Time at={last_seen_at} />),
  },
];

/** Shows the current release, and the desired one if it differs, of the app "main" or else the first app; then the number of further apps. */
function ReleaseCell({ apps, release_state }: Robot) {
  const shown = apps.find(({ app }) => app === "main") ?? apps[0];
  if (shown === undefined) return <span className="text-muted">—</span>;
  const { current, desired } = shown;
  return (
    <span className="flex min-w-0 items-center gap-1" title={shown.app}>
      <Text line>{current?.tag ?? "none"}</Text>
      {desired !== null && desired.id !== current?.id && (
        <>
          <ArrowRight size={12} aria-label="changing to" className="shrink-0 text-muted" />
          <Text line>{desired.tag}</Text>
        </>
      )}
      {apps.length > 1 && <span className="shrink-0 text-xs text-muted">and {apps.length - 1} more</span>}
      {release_state === "failed" && <StatusBadge status="failed" />}
    </span>
  );
}
