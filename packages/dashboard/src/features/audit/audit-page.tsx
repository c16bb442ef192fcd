import type { AuditEntry } from "@roamfleet/protocol/routes";
import { type InfiniteData, useInfiniteQuery, type UseInfiniteQueryResult } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download, RefreshCw } from "lucide-react";
import { pagesQuery, rowsOf } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, copyAsRf, EmptyState, ListTable, Menu, PageHeader, shellLine } from "../../ui/index.ts";
import { AuditDetails } from "./audit-details.tsx";
import { AuditFilters } from "./audit-filters.tsx";
import { AUDIT_COLUMNS } from "./audit-columns.tsx";
import { type AuditSearch, auditWords, exportPath, filterOf } from "./audit-search.ts";

const route = getRouteApi("/app/audit");
const PAGE_ROWS = 200;

/** The audit log with filters and export. */
export function AuditPage() {
  const search = route.useSearch();
  const is_admin = useMay("admin");
  const line = shellLine(...auditWords(search));
  const list = useInfiniteQuery({
    ...pagesQuery("listAudit", { query: { ...filterOf(search), limit: PAGE_ROWS } }),
    enabled: is_admin,
  });
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Audit log"
        label="Audit log"
        meta="Actions of users, tokens and robots, with origin and outcome. Entries are never changed."
        actions={
          is_admin && (
            <>
              <Button look="quiet" icon={<RefreshCw size={14} aria-hidden />} busy={list.isRefetching} onClick={() => void list.refetch()}>
                Refresh
              </Button>
              <a
                href={exportPath(search)}
                download="audit.ndjson"
                className="inline-flex h-8 items-center gap-1.5 rounded-md border border-line bg-raised px-3 font-medium hover:bg-hover"
              >
                <Download size={14} aria-hidden />
                Export
              </a>
              <Menu label="More" entries={[copyAsRf(line), copyAsRf(`${line} --export > audit.ndjson`, "Copy rf export command")]} />
            </>
          )
        }
      />
      {is_admin ? (
        <Entries list={list} />
      ) : (
        <EmptyState title="You don't have access">Only admins of the whole organization can view the audit log.</EmptyState>
      )}
    </div>
  );
}

function Entries({ list }: { list: UseInfiniteQueryResult<InfiniteData<{ items: readonly AuditEntry[] }>> }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const show = (change: AuditSearch): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const entry = rowsOf(list.data).find(({ id }) => id === search.entry);
  const is_filtered = Object.values(filterOf(search)).some((value) => value !== undefined);
  return (
    <>
      <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter audit log">
        <AuditFilters search={search} onChange={show} />
        {is_filtered && (
          <Button look="quiet" onClick={() => void navigate({ search: {}, replace: true })}>
            Clear
          </Button>
        )}
      </div>
      <div className="min-h-64 flex-1">
        <ListTable
          label="Audit log"
          list={list}
          rowKey={({ id }) => id}
          columns={AUDIT_COLUMNS}
          height="100%"
          onOpen={({ id }) => show({ entry: id })}
          empty={
            <EmptyState
              title="No matching entries"
              {...(is_filtered ? { actions: <Button onClick={() => void navigate({ search: {}, replace: true })}>Show all</Button> } : {})}
            />
          }
        />
      </div>
      {entry !== undefined && <AuditDetails entry={entry} onClose={() => show({ entry: undefined })} />}
    </>
  );
}
