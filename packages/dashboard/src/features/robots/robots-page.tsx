import type { Robot } from "@roamfleet/protocol/routes";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { useMay } from "../../api/session.ts";
import { Button, copyAsRf, DataTable, EmptyState, LinkButton, Menu, PageHeader, QueryState } from "../../ui/index.ts";
import { BulkBar } from "./bulk-bar.tsx";
import { usePlaces } from "./place-names.ts";
import { robotsColumns } from "./robots-columns.tsx";
import { RobotsFilters } from "./robots-filters.tsx";
import { isFiltered, robotsCommand, type RobotsSearch } from "./robots-search.ts";
import { ViewsMenu } from "./views-menu.tsx";

const route = getRouteApi("/app/robots");
const idOf = ({ id }: Robot): string => id;
const NONE: ReadonlySet<string> = new Set();

/** The list of all robots. */
export function RobotsPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const places = usePlaces();
  const may_change = useMay("operator");
  const [selected, setSelected] = useState(NONE);
  const { query, rows, has_more, onEnd, onRange } = useLivePages("listRobots", idOf, { query: search });
  const columns = useMemo(() => robotsColumns(places), [places]);
  const chosen = useMemo(() => (selected.size === 0 ? [] : rows.filter(({ id }) => selected.has(id))), [rows, selected]);
  const open = useCallback(({ id }: Robot) => void navigate({ to: "/robots/$id", params: { id } }), [navigate]);
  const { fetchNextPage } = query;
  /** Loads the remaining pages, then selects all robots. */
  const selectAll = useCallback(async () => {
    for (;;) {
      const { data, hasNextPage, isError } = await fetchNextPage();
      setSelected(new Set((data?.pages ?? []).flatMap(({ items }) => items.map(idOf))));
      if (!hasNextPage || isError) return;
    }
  }, [fetchNextPage]);
  const change = (next: RobotsSearch): void => {
    setSelected(NONE);
    void navigate({ to: "/robots", search: next, replace: true });
  };
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Robots"
        label="Robots"
        actions={
          <>
            <ViewsMenu search={search} />
            {may_change && <LinkButton to="/enrollment/new">Enroll robots</LinkButton>}
            <Menu label="More" entries={[copyAsRf(robotsCommand(search))]} />
          </>
        }
      />
      <RobotsFilters search={search} places={places} onChange={change} />
      {chosen.length > 0 && (
        <BulkBar robots={chosen} places={places} onClear={() => setSelected(NONE)} {...(has_more ? { onSelectAll: selectAll } : {})} />
      )}
      <div className="min-h-0 flex-1" aria-busy={query.isPlaceholderData}>
        <QueryState query={query} rows={12}>
          {() => (
            <DataTable
              label="Robots"
              columns={columns}
              rows={rows}
              rowKey={idOf}
              onOpen={open}
              {...(may_change ? { selected, onSelect: setSelected } : {})}
              onEnd={onEnd}
              onRange={onRange}
              has_more={has_more}
              height="100%"
              empty={<NoRobots search={search} onClear={() => change({})} />}
            />
          )}
        </QueryState>
      </div>
      <Loaded count={rows.length} has_more={has_more} />
    </div>
  );
}

function Loaded({ count, has_more }: { count: number; has_more: boolean }) {
  if (count === 0) return null;
  return (
    <p className="pt-2 text-xs text-muted tabular-nums" role="status">
      {has_more ? `${count.toLocaleString()} loaded, more as you scroll` : `${count.toLocaleString()} ${count === 1 ? "robot" : "robots"}`}
    </p>
  );
}

function NoRobots({ search, onClear }: { search: RobotsSearch; onClear: () => void }) {
  if (isFiltered(search))
    return (
      <EmptyState title="No matching robots" actions={<Button onClick={onClear}>Clear filters</Button>} command={robotsCommand(search)}>
        No robot matches all filters.
      </EmptyState>
    );
  return (
    <EmptyState
      title="No robots yet"
      actions={
        <LinkButton look="primary" to="/enrollment/new">
          Enroll the first robot
        </LinkButton>
      }
    >
      Create an enrollment key and run its command on the robot. The robot then appears here automatically.
    </EmptyState>
  );
}
