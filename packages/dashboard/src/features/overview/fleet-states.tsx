import type { FleetOverview } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { Badge, cx, DeploymentStatusBadge, NameLink, Progress, QueryState, Section, TextLine, Time, type Tone } from "../../ui/index.ts";
import { saysApp } from "../robots/robot-text.ts";
import { useFleetOverview } from "./use-fleet-overview.ts";

type FleetState = FleetOverview["fleets"][number];

/** The state of each fleet of the org or of one site, those with problems first. */
export function FleetStates({ is_stale, site_id }: { is_stale: boolean; site_id?: string }) {
  const search = site_id === undefined ? {} : { site_id };
  const states = useFleetOverview(search);
  return (
    <Section
      title={site_id === undefined ? "Sites and fleets" : "Fleets"}
      all={(states.data?.data.fleet_count ?? 0) > (states.data?.data.fleets.length ?? 0) && { to: "/fleets", search }}
    >
      <QueryState query={states} rows={3}>
        {({ data: { fleets } }) =>
          fleets.length === 0 ? (
            <p className="text-muted">
              {site_id === undefined ? "No fleets yet" : "No fleets at this site yet. Create one with “New fleet” above."}
            </p>
          ) : (
            <FleetTable fleets={fleets} is_stale={is_stale} has_sites={site_id === undefined} />
          )
        }
      </QueryState>
    </Section>
  );
}

const HEAD = "px-3 py-2 text-left text-xs font-medium text-muted";
const CELL = "px-3 py-2 align-middle";

interface FleetTableProps {
  fleets: readonly FleetState[];
  is_stale: boolean;
  /** Whether the fleets may belong to different sites, which are then shown. */
  has_sites: boolean;
}

function FleetTable({ fleets, ...rest }: FleetTableProps) {
  return (
    <div
      className="max-h-128 overflow-auto rounded-lg border border-line bg-raised"
      tabIndex={0}
      role="region"
      aria-label="State of the fleets"
    >
      <table className="w-full table-fixed border-collapse">
        <thead className="sticky top-0 z-10 bg-sunken">
          <tr>
            <th className={HEAD}>Fleet</th>
            <th className={cx(HEAD, "w-32 max-sm:w-24")}>Online</th>
            <th className={cx(HEAD, "w-28 max-sm:w-24")}>Unhealthy</th>
            <th className={cx(HEAD, "max-sm:hidden")}>Versions</th>
            <th className={cx(HEAD, "w-40 max-lg:hidden")}>Newest deployment</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {fleets.map((fleet) => (
            <FleetRow key={fleet.fleet_id} fleet={fleet} {...rest} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FleetRow({ fleet, is_stale, has_sites }: { fleet: FleetState } & Omit<FleetTableProps, "fleets">) {
  const { fleet_id, fleet_name, site_id, site_name, total, online, never_connected, unhealthy, last_lost_at } = fleet;
  const offline = total - online - never_connected;
  return (
    <tr>
      <td className={CELL}>
        <NameLink to="/fleets/$id" params={{ id: fleet_id }} name={fleet_name} className="min-h-6 font-medium" />
        {has_sites && <NameLink to="/sites/$id" params={{ id: site_id }} name={site_name} className="min-h-6 text-xs text-muted" />}
      </td>
      <td className={cx(CELL, "tabular-nums")}>
        <Link
          to="/robots"
          search={offline > 0 ? { fleet_id, status: "offline" } : { fleet_id }}
          className="inline-block min-h-6 hover:underline"
        >
          {online.toLocaleString()} of {total.toLocaleString()}
        </Link>
        {offline > 0 && (
          <span className="block text-xs text-muted">
            <span className={cx(!is_stale && "font-medium text-warn")}>{offline.toLocaleString()} offline</span>
            {last_lost_at !== null && (
              <>
                , last seen <Time at={last_lost_at} />
              </>
            )}
          </span>
        )}
      </td>
      <td className={CELL}>
        {unhealthy === 0 ? (
          <span className="text-muted">none</span>
        ) : (
          <Link to="/robots" search={{ fleet_id, health: "failing" }} className="inline-block min-h-6 hover:underline">
            <Badge tone="bad">{unhealthy.toLocaleString()}</Badge>
          </Link>
        )}
      </td>
      <td className={cx(CELL, "max-sm:hidden")}>
        <Versions fleet={fleet} />
      </td>
      <td className={cx(CELL, "max-lg:hidden")}>
        <Newest fleet={fleet} />
      </td>
    </tr>
  );
}

/** Tones that distinguish the versions. None of them is a judgment, so green and red are not used. */
const VERSION_TONES: readonly Tone[] = ["info", "idle", "warn", "idle", "warn"];

function Versions({ fleet: { fleet_name, app, versions, total } }: { fleet: FleetState }) {
  const [first] = versions;
  if (first === undefined) return <span className="text-muted">none</span>;
  const parts = versions.map(({ tag, count }, at) => ({
    value: count,
    tone: VERSION_TONES[at] ?? "idle",
    label: tag === "" ? "deleted release" : tag,
  }));
  const says_app = app === null || app === "main" || versions.every(({ tag }) => saysApp({ app, tag }));
  const text = parts.map(({ label, value }) => (parts.length === 1 && value === total ? label : `${label}: ${value.toLocaleString()}`));
  return (
    <>
      <TextLine className="mb-1 text-xs text-muted">{`${says_app ? "" : `${app}: `}${text.join(", ")}`}</TextLine>
      <Progress label={`Versions in ${fleet_name.slice(0, 80)}`} total={total} parts={parts} />
    </>
  );
}

function Newest({ fleet: { newest_deployment } }: { fleet: FleetState }) {
  if (newest_deployment === null) return <span className="text-muted">none</span>;
  const { id, kind, created_at } = newest_deployment;
  return (
    <Link to={kind === "config" ? "/config-deployments/$id" : "/deployments/$id"} params={{ id }} className="block hover:underline">
      <DeploymentStatusBadge deployment={newest_deployment} />
      <span className="block text-xs text-muted">
        {kind} deployment, <Time at={created_at} />
      </span>
    </Link>
  );
}
