import { paths } from "@roamfleet/protocol/paths";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download, RefreshCw } from "lucide-react";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { type AuditSearch, hasFilters } from "../../search.ts";
import {
  AnchorButton,
  Button,
  Checkbox,
  copyAsRf,
  EmptyState,
  FilterSelect,
  ListTable,
  Menu,
  MoreFilters,
  namedOptions,
  NoMatch,
  PageHeader,
  SearchInput,
  TableSettings,
  TimeInput,
  useFilters,
  useTableView,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { AUDIT_COLUMNS, AuditDetails } from "./audit-entries.tsx";
import { actionWords, auditCommand, exportPath, filterOf, selectedOf } from "./audit-search.ts";

const route = getRouteApi("/app/audit");
const PAGE_ROWS = 200;

/** The audit log with filters and export. */
export function AuditPage() {
  if (useMay("admin")) return <AuditLog />;
  return (
    <>
      <Head />
      <EmptyState title="You don't have access">Only admins of the whole organization can view the audit log.</EmptyState>
    </>
  );
}

const Head = ({ actions }: { actions?: ReactNode }) => (
  <PageHeader
    title="Audit log"
    label="Audit log"
    meta="Actions of users, tokens and robots, each with its IP address and outcome. Entries are never changed."
    actions={actions}
  />
);

function AuditLog() {
  const { search, change, clear } = useFilters(route.useSearch());
  const list = useLivePages("listAudit", { query: { ...filterOf(search), limit: PAGE_ROWS } });
  const view = useTableView("audit", AUDIT_COLUMNS);
  const line = auditCommand(search);
  const entry = list.rows.find(({ id }) => id === search.entry);
  const is_filtered = hasFilters(selectedOf(search));
  return (
    <div className="flex h-full min-h-96 flex-col">
      <Head
        actions={
          <>
            <ViewsMenu page="audit" search={{ ...search, entry: undefined }} table={view} />
            <Button
              icon={RefreshCw}
              busy={list.query.isRefetching && list.query.failureCount === 0}
              onClick={() => void list.query.refetch()}
            >
              <span className="max-sm:sr-only">Refresh</span>
            </Button>
            <AnchorButton href={exportPath(search)} download="audit.ndjson" icon={Download}>
              Export
            </AnchorButton>
            <TableSettings view={view} />
            <Menu label="More" entries={[copyAsRf(line), copyAsRf(`${line} --export > audit.ndjson`, "Copy rf export command")]} />
          </>
        }
      />
      <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter audit log">
        <FilterSelect label="Action" value={search.action} options={ACTIONS} onChange={(action) => change({ action })} />
        <MoreFilters>
          <RarerFilters search={search} onChange={change} />
        </MoreFilters>
        <Checkbox label="Show reads" checked={search.reads === true} onChange={(on) => change({ reads: on ? true : undefined })} />
        {is_filtered && (
          <Button look="quiet" onClick={() => clear()}>
            Clear
          </Button>
        )}
      </div>
      <div className="flex min-h-64 flex-1 flex-col">
        <ListTable
          label="Audit log"
          list={list}
          columns={view.columns}
          is_dense={view.is_dense}
          height="100%"
          onOpen={({ id }) => change({ entry: id })}
          empty={is_filtered ? <NoMatch title="No matching entries" onClear={() => clear()} /> : <EmptyState title="No entries yet" />}
        />
      </div>
      {entry !== undefined && <AuditDetails entry={entry} onClose={() => change({ entry: undefined })} />}
    </div>
  );
}

/** All action names: routes that change data, exports, and stream events. */
const ACTIONS = [
  "stream.opened",
  "stream.closed",
  "exportRobotLogs",
  "exportFleetLogs",
  ...Object.entries(paths).flatMap(([name, [method]]) => (method === "GET" ? [] : [name])),
]
  .map((value) => ({ value, label: actionWords(value) }))
  .toSorted((a, b) => a.label.localeCompare(b.label));
interface Parts {
  search: AuditSearch;
  onChange: (change: AuditSearch) => void;
}

function RarerFilters({ search, onChange }: Parts) {
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const tokens = useQuery(query("listTokens")).data?.items ?? [];
  const actors = [
    ...namedOptions(users),
    ...tokens.filter(({ user_id }) => user_id === null).map(({ id, label, prefix }) => ({ value: id, label: `token ${label ?? prefix}` })),
  ];
  // The URL may name an actor that is not listed, such as a robot or a removed user.
  const known = search.actor_id === undefined || actors.some(({ value }) => value === search.actor_id);
  return (
    <>
      <FilterSelect
        label="User"
        value={search.actor_id}
        options={known ? actors : [...actors, { value: search.actor_id!, label: search.actor_id! }]}
        onChange={(actor_id) => onChange({ actor_id })}
      />
      <FilterSelect label="Outcome" value={search.outcome} options={["done", "refused"]} onChange={(outcome) => onChange({ outcome })} />
      <ObjectFilter object_id={search.object_id} onChange={onChange} />
      <div className="flex flex-wrap gap-2 max-sm:w-full">
        <TimeInput label="From" value={search.since} onValue={(since) => onChange({ since })} />
        <TimeInput label="To" value={search.until} onValue={(until) => onChange({ until })} />
      </div>
    </>
  );
}

/** A field for a pasted ID. The filter applies on submit. */
function ObjectFilter({ object_id, onChange }: { object_id: string | undefined; onChange: (change: AuditSearch) => void }) {
  const [text, setText] = useState(object_id ?? "");
  useEffect(() => setText(object_id ?? ""), [object_id]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onChange({ object_id: text.trim() || undefined });
  };
  return (
    <form onSubmit={submit} className="w-36 max-sm:w-full">
      <SearchInput
        label="Object ID"
        value={text}
        onValue={(next) => {
          setText(next);
          if (next === "") onChange({ object_id: undefined });
        }}
        onBlur={() => {
          if ((text.trim() || undefined) !== object_id) onChange({ object_id: text.trim() || undefined });
        }}
      />
    </form>
  );
}
