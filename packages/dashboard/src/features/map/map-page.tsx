import type { RobotPosition } from "@roamfleet/protocol/routes";
import { getRouteApi, Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import type { MapSearch } from "../../search.ts";
import {
  Button,
  type Column,
  cx,
  DataTable,
  EmptyState,
  FilterSelect,
  HealthBadge,
  IconButton,
  LinkButton,
  NameLink,
  namedOptions,
  PageHeader,
  QueryState,
  Segments,
  StatusBadge,
  Text,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { FloorPlanButton, useFloorPlan } from "./floor-plan.tsx";
import type { Frame, Point } from "./frames.ts";
import { MAP_TILES } from "./map-tiles.ts";
import { MapView } from "./map-view.tsx";
import { isUnhealthy, type Placed } from "./marker.tsx";
import { isIn, usePlaced } from "./use-placed.ts";
import { type Positions, ROBOTS_MAX, usePositions } from "./use-positions.ts";

const route = getRouteApi("/app/map");
const STATUSES = [
  { value: "online", label: "Online" },
  { value: "offline", label: "Offline" },
  { value: "never_connected", label: "Never connected" },
] as const;

/** A map with the last known position of each robot, and the list of the same robots. */
export function MapPage() {
  const filters = useFilters(route.useSearch());
  const { search, change } = filters;
  const { site_id, fleet_id, status, frame } = search;
  const positions = usePositions({ site_id, fleet_id, status });
  const { sites, fleets } = usePlaces();
  const fleets_there = fleets.filter((fleet) => site_id === undefined || fleet.site_id === site_id);
  return (
    <div className="flex h-full min-h-[40rem] flex-col">
      <PageHeader title="Map" label="Map" />
      <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Robots">
        <FilterSelect
          label="Site"
          value={site_id}
          options={namedOptions(sites)}
          onChange={(id) => change({ site_id: id, fleet_id: undefined })}
        />
        <FilterSelect label="Fleet" value={fleet_id} options={namedOptions(fleets_there)} onChange={(id) => change({ fleet_id: id })} />
        <FilterSelect label="Status" value={status} options={STATUSES} onChange={(next) => change({ status: next })} />
        {(site_id ?? fleet_id ?? status) !== undefined && (
          <Button look="quiet" onClick={() => filters.clear(frame === undefined ? {} : { frame })}>
            Clear
          </Button>
        )}
      </div>
      <QueryState query={positions} rows={12}>
        {(data) => <Found positions={data} search={search} onChange={change} />}
      </QueryState>
    </div>
  );
}

interface FoundProps {
  positions: Positions;
  search: MapSearch;
  onChange: (part: MapSearch) => void;
}

function Found({ positions: { robots, is_cut }, search, onChange }: FoundProps) {
  const { frame, placed, is_planar, is_geographic, sites, plan_site } = usePlaced(robots, search);
  const [selected, setSelected] = useState(search.robot_id);
  const [focus, setFocus] = useState<Point>();
  const floor_plan = useFloorPlan(plan_site);
  const robot = robots.find(({ id }) => id === selected);
  const open = useCallback(
    (id: string): void => {
      setSelected(id);
      const place = placed.find((one) => one.robot.id === id);
      // A new object, so that a second click shows the robot again.
      setFocus(place && { x: place.x, y: place.y });
    },
    [placed],
  );
  if (robots.every(({ position }) => position === null)) {
    if ((search.site_id ?? search.fleet_id ?? search.status) !== undefined) return <NoMatch />;
    return robots.length === 0 ? <NoRobots /> : <NoPositions />;
  }
  return (
    <>
      {is_cut && (
        <p className="mb-2 text-muted">
          The map shows the newest {ROBOTS_MAX.toLocaleString()} robots. Filter by site or fleet to see others.
        </p>
      )}
      <div className="grid min-h-0 flex-1 gap-3 max-lg:grid-rows-[minmax(20rem,3fr)_minmax(14rem,2fr)] lg:grid-cols-[minmax(0,1fr)_24rem]">
        <MapView
          frame={frame}
          robots={placed}
          selected={selected}
          onSelect={setSelected}
          fit_key={JSON.stringify([search, is_planar, plan_site])}
          focus={focus}
          tile_url={MAP_TILES?.url}
          attribution={MAP_TILES?.attribution}
          plan={floor_plan.plan}
        >
          {robot !== undefined && <RobotCard robot={robot} frame={frame} onClose={() => setSelected(undefined)} />}
        </MapView>
        <div className="flex min-h-0 min-w-0 flex-col gap-2">
          <div className="flex flex-wrap gap-2">
            {is_geographic && sites.size > 0 && <FrameSwitch is_planar={is_planar} onChange={onChange} />}
            {plan_site !== undefined && (
              <FloorPlanButton key={plan_site} site_id={plan_site} stored={floor_plan.stored} is_loaded={floor_plan.is_loaded} />
            )}
            {is_planar && search.site_id === undefined && sites.size > 1 && <PlanSite sites={sites} onChange={onChange} />}
          </div>
          <RobotList robots={robots} placed={placed} onOpen={open} />
        </div>
      </div>
    </>
  );
}

const FrameSwitch = ({ is_planar, onChange }: { is_planar: boolean; onChange: (part: MapSearch) => void }) => (
  <Segments
    label="Coordinates"
    options={[
      { value: "world", label: "World" },
      { value: "plan", label: "Floor plan" },
    ]}
    value={is_planar ? "plan" : "world"}
    onChange={(frame) => onChange({ frame })}
  />
);

interface RobotListProps {
  robots: readonly RobotPosition[];
  placed: readonly Placed[];
  onOpen: (id: string) => void;
}

const NAMES = new Intl.Collator(undefined, { numeric: true });

/** The robots in two tabs: those on the map, and those that it does not show. */
function RobotList({ robots, placed, onOpen }: RobotListProps) {
  const [tab, setTab] = useState<"placed" | "missing">("placed");
  const [shown, missing] = useMemo(() => {
    const ids = new Set(placed.map(({ robot }) => robot.id));
    const byName = (some: RobotPosition[]) => some.toSorted((a, b) => NAMES.compare(a.name, b.name));
    return [byName(placed.map(({ robot }) => robot)), byName(robots.filter(({ id }) => !ids.has(id)))];
  }, [robots, placed]);
  const is_placed = tab === "placed";
  return (
    <>
      <div className="flex">
        <Segments
          label="Robots"
          options={[
            { value: "placed", label: `On the map (${shown.length.toLocaleString()})` },
            { value: "missing", label: `Not on the map (${missing.length.toLocaleString()})` },
          ]}
          value={tab}
          onChange={setTab}
        />
      </div>
      <DataTable
        label={is_placed ? "Robots on the map" : "Robots that are not on the map"}
        rows={is_placed ? shown : missing}
        columns={COLUMNS}
        onOpen={({ id }) => onOpen(id)}
        is_dense
        height="100%"
        empty={<p className="text-muted">{is_placed ? "No robot has coordinates of this map" : "Every robot is on the map"}</p>}
      />
    </>
  );
}

function PlanSite({ sites, onChange }: { sites: ReadonlySet<string>; onChange: (part: MapSearch) => void }) {
  const { site_names } = usePlaces();
  const first = [...sites][0] ?? "";
  return (
    <p className="flex items-center gap-2 text-muted">
      <span>
        Site: <Text>{site_names.get(first) ?? "first site"}</Text>
      </span>
      <FilterSelect
        label="Other site"
        value={undefined}
        options={namedOptions([...sites].map((id) => ({ id, name: site_names.get(id) ?? id })))}
        onChange={(site_id) => onChange({ site_id })}
      />
    </p>
  );
}

const COLUMNS: readonly Column<RobotPosition>[] = [
  {
    name: "Name",
    width: "minmax(5rem, 1fr)",
    text: ({ name }) => name,
    cell: ({ id, name }) => <NameLink to="/robots/$id" params={{ id }} name={name} />,
  },
  {
    name: "Status",
    width: "8rem",
    cell: (robot) => (isUnhealthy(robot) ? <HealthBadge robot={robot} /> : <StatusBadge status={robot.status} />),
  },
  {
    name: "Position from",
    width: "6.5rem",
    cell: ({ position }) => (position === null ? <span className="text-muted">none</span> : <Time at={position.at} />),
  },
];

function RobotCard({ robot, frame, onClose }: { robot: RobotPosition; frame: Frame; onClose: () => void }) {
  const { id, name, status, status_since, failing, position } = robot;
  return (
    <section aria-label="Selected robot" className="w-72 max-w-full rounded-lg border border-line bg-raised p-3 shadow-raised">
      <div className="mb-1 flex items-start justify-between gap-2">
        <Link to="/robots/$id" params={{ id }} className="min-w-0 font-medium text-accent underline">
          <Text>{name}</Text>
        </Link>
        <IconButton label="Close" icon={X} className="-mt-1.5 -mr-1.5" onClick={onClose} />
      </div>
      <p className="flex flex-wrap items-center gap-x-2">
        <StatusBadge status={status} />
        {status_since !== null && (
          <span className="text-muted">
            since <Time at={status_since} exact />
          </span>
        )}
        {isUnhealthy(robot) && <HealthBadge robot={robot} />}
      </p>
      {isUnhealthy(robot) && (
        <p className="mt-1 wrap-anywhere">
          <Text>{failing.join(", ")}</Text>
        </p>
      )}
      {position !== null && (
        <p className={cx("mt-1 text-muted tabular-nums")}>
          {isIn(frame, robot) ? `${frame.textOf(position)}, ` : "Not on this map; position from "}
          <Time at={position.at} />
        </p>
      )}
    </section>
  );
}

const NoMatch = () => (
  <EmptyState title="No matching positions">No robot that matches the filters has reported a position. Remove a filter.</EmptyState>
);

function NoRobots() {
  const may_enroll = useMay("operator");
  return (
    <EmptyState
      title="No robots yet"
      actions={
        may_enroll && (
          <LinkButton look="primary" to="/enrollment/new">
            Enroll the first robot
          </LinkButton>
        )
      }
    >
      The map shows the last reported position of each robot.
    </EmptyState>
  );
}

const NoPositions = () => (
  <EmptyState
    title="No positions yet"
    command={`curl --unix-socket "$ROAMFLEET_SOCKET" http://robot/v1/samples -d '[{ "name": "position_latitude_degrees", "value": 51.92 }, { "name": "position_longitude_degrees", "value": 4.48 }]'`}
  >
    Robots appear here when they report the metrics position_latitude_degrees and position_longitude_degrees, or position_x_meters and
    position_y_meters. Try it on a robot:
  </EmptyState>
);
