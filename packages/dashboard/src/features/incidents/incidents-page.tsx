import type { Incident } from "@roamfleet/protocol/routes";
import { SEVERITIES } from "@roamfleet/protocol/states";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, query, usePlaces } from "../../api/queries.ts";
import type { IncidentsSearch } from "../../search.ts";
import {
  Button,
  type Column,
  copyAsRf,
  EmptyState,
  FilterSelect,
  LinkButton,
  ListTable,
  Menu,
  NameLink,
  NoMatch,
  namedOptions,
  PageHeader,
  shellLine,
  TableSettings,
  TextLine,
  Time,
  useFilters,
  useTableView,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { IncidentStatusBadge, membersText, placeText, SeverityBadge } from "./incident-parts.tsx";

const route = getRouteApi("/app/incidents");
const STATES = [
  { value: "open", label: "open" },
  { value: "acknowledged", label: "acknowledged" },
  { value: "resolved", label: "resolved" },
  { value: "all", label: "all" },
] as const;

/** The incidents. Without a filter, those that are not resolved. */
export function IncidentsPage() {
  const filters = useFilters(route.useSearch());
  const navigate = route.useNavigate();
  const places = usePlaces();
  const list = useLivePages("listIncidents", { query: queryOf(filters.search) });
  const view = useTableView(
    "incidents",
    useMemo(() => columnsOf(places), [places]),
  );
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Incidents"
        label="Incidents"
        actions={
          <>
            <ViewsMenu page="incidents" search={filters.search} table={view} />
            <LinkButton to="/alert-rules">Alert rules</LinkButton>
            <TableSettings view={view} />
            <Menu label="More" entries={[copyAsRf(listCommand(filters.search))]} />
          </>
        }
      />
      <IncidentFilters places={places} {...filters} />
      <ListTable
        label="Incidents"
        list={list}
        columns={view.columns}
        is_dense={view.is_dense}
        onOpen={({ id }) => void navigate({ to: "/incidents/$id", params: { id } })}
        height="100%"
        empty={<NoIncidents {...filters} />}
      />
    </div>
  );
}

const queryOf = ({ state, ...query }: IncidentsSearch) => ({
  ...query,
  ...(state === undefined ? { unresolved: true } : state === "all" ? {} : { status: state }),
});

const listCommand = ({ state, severity, site_id, fleet_id, robot_id, rule_id }: IncidentsSearch): string =>
  shellLine("rf", "incidents", "list", {
    unresolved: state === undefined,
    status: state === "all" ? undefined : state,
    severity,
    site: site_id,
    fleet: fleet_id,
    robot: robot_id,
    rule: rule_id,
  });

const columnsOf = (places: Places): Column<Incident>[] => [
  { name: "Severity", width: "5.5rem", cell: ({ severity }) => <SeverityBadge severity={severity} /> },
  {
    name: "Incident",
    width: "minmax(0, 1.4fr)",
    cell: ({ id, title }) => <NameLink to="/incidents/$id" params={{ id }} name={title} className="font-medium" />,
  },
  { name: "Place", width: "minmax(0, 1.4fr)", priority: 2, cell: (incident) => <TextLine>{placeText(incident, places)}</TextLine> },
  { name: "Affected", width: "minmax(0, 1.2fr)", priority: 3, cell: (incident) => <TextLine>{membersText(incident)}</TextLine> },
  { name: "Status", width: "8rem", priority: 2, cell: ({ status }) => <IncidentStatusBadge status={status} /> },
  { name: "Assignee", width: "minmax(0, 8rem)", priority: 3, cell: ({ assignee_name }) => <TextLine>{assignee_name}</TextLine> },
  { name: "Since", width: "5.5rem", cell: ({ raised_at }) => <Time at={raised_at} /> },
];

function IncidentFilters({
  search,
  change,
  clear,
  is_filtered,
  places,
}: ReturnType<typeof useFilters<IncidentsSearch>> & { places: Places }) {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter incidents">
      <FilterSelect label="Status" none="not resolved" value={search.state} options={STATES} onChange={(state) => change({ state })} />
      <FilterSelect label="Severity" value={search.severity} options={SEVERITIES} onChange={(severity) => change({ severity })} />
      <FilterSelect label="Site" value={search.site_id} options={namedOptions(places.sites)} onChange={(site_id) => change({ site_id })} />
      <RuleFilter rule_id={search.rule_id} onChange={(rule_id) => change({ rule_id })} />
      {is_filtered && (
        <Button look="quiet" onClick={() => clear()}>
          Clear
        </Button>
      )}
    </div>
  );
}

/** The filter by alert rule. A deleted rule appears only while it is chosen, for example with the link on an incident's page. */
function RuleFilter({ rule_id, onChange }: { rule_id: string | undefined; onChange: (rule_id: string | undefined) => void }) {
  const rules = useQuery(query("listAlertRules")).data?.items;
  if (rules === undefined) return null;
  const is_deleted = rule_id !== undefined && rules.every(({ id }) => id !== rule_id);
  const options = [...namedOptions(rules), ...(is_deleted ? [{ value: rule_id, label: "deleted rule" }] : [])];
  return <FilterSelect label="Rule" value={rule_id} options={options} onChange={onChange} />;
}

function NoIncidents({ search, clear }: ReturnType<typeof useFilters<IncidentsSearch>>) {
  const { state, ...others } = search;
  const is_filtered = Object.values(others).some((value) => value !== undefined);
  if (is_filtered || (state !== undefined && state !== "all")) return <NoMatch title="No matching incidents" onClear={() => clear()} />;
  return (
    <EmptyState
      title={state === "all" ? "No incidents yet" : "No open incidents"}
      actions={state === undefined && <Button onClick={() => clear({ state: "all" })}>Show all incidents</Button>}
    >
      Alert rules open incidents, for example when robots go offline or a deployment fails.
    </EmptyState>
  );
}
