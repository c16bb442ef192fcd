import type { Body } from "@roamfleet/sdk/browser";
import { type InfiniteData, useInfiniteQuery, type UseInfiniteQueryResult } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { RefreshCw } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { api } from "../../api/client.ts";
import { pagesQuery, rowsOf, usePlaces } from "../../api/queries.ts";
import type { LogsSearch } from "../../search.ts";
import {
  Button,
  copyAsRf,
  EmptyState,
  type Filters,
  FilterSelect,
  hasFailed,
  Menu,
  namedOptions,
  PageHeader,
  QueryState,
  shellLine,
  Text,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { LogFilterBar } from "./log-filter-bar.tsx";
import { LogHistogram, type Span } from "./log-histogram.tsx";
import { LogLine } from "./log-line.tsx";
import { filterOf } from "./log-text.ts";

const route = getRouteApi("/app/logs");
/** Maximum records on the page. Beyond it, the user narrows the time. */
const RECORDS_MAX = 2_000;

/** The search in the logs of all robots that the user may see. All filters are in the URL. */
export function LogSearchPage() {
  const filters = useFilters(route.useSearch());
  const { search, change } = filters;
  const [searches, setSearches] = useState(0);
  const query = useQueryOf(search, searches);
  // A search costs the server much, so only the user repeats it.
  const found = useInfiniteQuery({ ...pagesQuery("searchLogs", { query }), staleTime: "static" });
  const counts = useInfiniteQuery({ ...countsQuery(query), staleTime: "static" });
  const searchAgain = (): void => {
    setSearches((before) => before + 1);
    // A relative period begins at another time then, which is another query.
    if (search.since === undefined || !search.since.includes("T")) return;
    void found.refetch();
    void counts.refetch();
  };
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Logs"
        label="Logs"
        actions={
          <>
            <ViewsMenu page="logs" search={search} />
            {/* The first search shows placeholders, and its retries an error. */}
            <Button icon={RefreshCw} busy={found.data !== undefined && found.isFetching} onClick={searchAgain}>
              Search again
            </Button>
            <Menu label="More" entries={[copyAsRf(commandOf(search))]} />
          </>
        }
      />
      <LogFilters {...filters} />
      {!hasFailed(found) && (
        <LogHistogram
          pages={counts.data?.pages.map(({ data }) => data)}
          error={counts.error}
          is_loading={counts.isFetching}
          onMore={counts.hasNextPage ? () => void counts.fetchNextPage() : undefined}
          onSpan={(span: Span) => change(span)}
        />
      )}
      <FoundRecords found={found} filters={filters} />
    </div>
  );
}

/** Returns the query of the filters. A relative time counts from the change of a filter, or of `searches`. */
function useQueryOf(search: LogsSearch, searches: number) {
  const { level, source, q, since = "1h", until, site_id, fleet_id, robot_id } = search;
  return useMemo(
    () => ({
      ...filterOf(JSON.parse(JSON.stringify({ level, source, q, since, until })) as LogsSearch, Date.now()),
      site_id,
      fleet_id,
      robot_id,
    }),
    // oxlint-disable-next-line react/exhaustive-deps -- a further search counts the time from now
    [level, source, q, since, until, site_id, fleet_id, robot_id, searches],
  );
}

function countsQuery(query: object) {
  return {
    queryKey: ["countLogs", query] as const,
    queryFn: async ({ pageParam, signal }: { pageParam: string | undefined; signal: AbortSignal }) =>
      (await api.call("countLogs", { query: { ...query, ...(pageParam === undefined ? {} : { cursor: pageParam }) }, signal })).body,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last: { data: { next_cursor: string | null } }) => last.data.next_cursor ?? undefined,
  };
}

const commandOf = ({ level, source, q, since, until, site_id, fleet_id, robot_id }: LogsSearch): string => {
  const filter = { level, source, grep: q, since, until };
  if (robot_id !== undefined) return shellLine("rf", "robots", "logs", robot_id, { ...filter, since: since ?? "1h" });
  return shellLine("rf", "logs", {
    all: site_id === undefined && fleet_id === undefined,
    site: site_id,
    fleet: fleet_id,
    ...filter,
  });
};

function LogFilters({ search, change, clear, is_filtered }: Filters<LogsSearch>) {
  const places = usePlaces();
  const { source, site_id, fleet_id, robot_id } = search;
  const fleets = places.fleets.filter((fleet) => site_id === undefined || fleet.site_id === site_id);
  return (
    <LogFilterBar
      label="Filter logs"
      search={search}
      onSearch={change}
      period="last hour"
      actions={
        <>
          {(source !== undefined || robot_id !== undefined) && (
            <span className="flex gap-x-2 text-muted">
              {source !== undefined && (
                <span>
                  Source: <Text>{source}</Text>
                </span>
              )}
              {robot_id !== undefined && (
                <span>
                  Robot: <Text>{robot_id}</Text>
                </span>
              )}
            </span>
          )}
          {is_filtered && (
            <Button look="quiet" onClick={() => clear()}>
              Clear
            </Button>
          )}
        </>
      }
    >
      <FilterSelect
        label="Site"
        value={site_id}
        options={namedOptions(places.sites)}
        onChange={(value) => change({ site_id: value, fleet_id: undefined })}
      />
      <FilterSelect label="Fleet" value={fleet_id} options={namedOptions(fleets)} onChange={(value) => change({ fleet_id: value })} />
    </LogFilterBar>
  );
}

const LONGER = "7d";

function NoRecords({ search, change, clear, is_filtered }: Filters<LogsSearch>) {
  const is_longest = search.since === LONGER;
  return (
    <EmptyState
      title={is_filtered ? "No matching log records" : "No log records in the last hour"}
      actions={
        <>
          {is_filtered && <Button onClick={() => clear()}>Clear filters</Button>}
          {!is_longest && <Button onClick={() => change({ since: LONGER, until: undefined })}>Search the last 7 days</Button>}
        </>
      }
    >
      {is_filtered ? "Select a longer time, or remove a filter." : "Records that robots send appear here."}
    </EmptyState>
  );
}

type Found = UseInfiniteQueryResult<InfiniteData<Body<"searchLogs">>>;

function FoundRecords({ found, filters }: { found: Found; filters: Filters<LogsSearch> }) {
  const records = useMemo(() => rowsOf(found.data), [found.data]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback((key: string): void => {
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  }, []);
  if (found.data === undefined)
    return (
      <QueryState query={found} rows={12}>
        {() => null}
      </QueryState>
    );
  const is_done = !found.hasNextPage;
  return (
    <div
      role="region"
      aria-label="Log records"
      tabIndex={0}
      className="min-h-0 flex-1 overflow-x-hidden overflow-y-auto rounded-lg border border-line bg-sunken"
    >
      {records.length === 0 && is_done && <NoRecords {...filters} />}
      {records.map((record) => {
        const key = `${record.robot_id}/${record.received_at}/${record.seq}`;
        return (
          <LogLine
            key={key}
            record={record}
            robot_name={record.robot_name}
            is_linked
            wanted={filters.search.q ?? ""}
            wrap={false}
            is_open={open.has(key)}
            id={key}
            onToggle={toggle}
          />
        );
      })}
      <More found={found} count={records.length} />
    </div>
  );
}

function More({ found, count }: { found: Found; count: number }) {
  const back_to = found.data?.pages.at(-1)?.searched_back_to ?? null;
  if (!found.hasNextPage) return count === 0 ? null : <p className="py-1 text-center text-xs text-muted">No older records</p>;
  if (count >= RECORDS_MAX)
    return (
      <p className="py-1 text-center text-xs text-muted">{`The newest ${count.toLocaleString()} records are shown. Narrow the time to see others.`}</p>
    );
  return (
    <div className="flex items-center justify-center gap-2 py-1 text-xs text-muted" role="status">
      {back_to !== null && (
        <span>
          Searched back to <Time at={back_to} exact />
        </span>
      )}
      <Button look="quiet" busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()} className="!h-[24px] text-xs">
        {found.isFetchNextPageError ? "Could not load older records. Try again" : back_to === null ? "Load older records" : "Continue"}
      </Button>
    </div>
  );
}
