import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo } from "react";
import { pagesQuery, query, rowsOf } from "../../api/queries.ts";
import { Command, PageHeader, QueryState, Text } from "../../ui/index.ts";
import { LiveBadge, LiveNotice } from "./live-notice.tsx";
import { exportUrl } from "./log-feed.ts";
import { logCommand, type LogSearch } from "./log-search.ts";
import { LogToolbar } from "./log-toolbar.tsx";
import { LogView } from "./log-view.tsx";
import { useLog } from "./robot-logs.tsx";
import { useLogFeed } from "./use-log-feed.ts";

/** Maximum robots whose names are loaded. Others are shown by ID. */
const ROBOTS_MAX = 5_000;
const PAGE_ROWS = 1_000;

/** The combined log of a fleet, with a color and a name for each robot. */
export function FleetLogsPage() {
  const { id } = useParams({ from: "/app/fleets/$id/logs" });
  const fleet = useQuery(query("getFleet", { params: { id } }));
  return (
    <QueryState query={fleet}>
      {({ data }) => (
        <>
          <PageHeader
            title={
              <>
                Logs of <Text>{data.name}</Text>
              </>
            }
            label={`Logs of ${data.name}`}
            meta={
              <Link to="/fleets/$id" params={{ id }} className="text-accent underline">
                Fleet
              </Link>
            }
          />
          <FleetLog id={id} />
        </>
      )}
    </QueryState>
  );
}

function FleetLog({ id }: { id: string }) {
  const search = useSearch({ from: "/app/fleets/$id/logs" });
  const navigate = useNavigate({ from: "/fleets/$id/logs" });
  const robots = useRobots(id);
  const names = useMemo(() => new Map(robots.map((robot) => [robot.id, robot.name])), [robots]);
  const nameOf = useCallback((robot_id: string) => names.get(robot_id) ?? robot_id, [names]);
  const { robot_id } = search;
  const log = useLog(robot_id === undefined ? "fleets" : "robots", robot_id ?? id, search);
  const feed = useLogFeed(log, robots.find((robot) => robot.id === robot_id)?.status === "online");
  const away = robots.filter(({ status }) => status !== "online").length;
  const change = (part: Partial<Record<keyof LogSearch, unknown>>): void =>
    void navigate({ search: (old) => ({ ...old, ...part }) as LogSearch, replace: true });
  return (
    <div className="flex h-[calc(100dvh-8rem)] min-h-96 flex-col">
      <LogToolbar search={search} onSearch={change} sources={feed.state.buffer.sources} export_url={exportUrl(log)} robots={robots} />
      <LiveNotice live={feed.state.live} onAgain={feed.again} />
      <LogView
        label="Fleet log"
        feed={feed}
        wanted={search.q ?? ""}
        wrap={search.wrap === true}
        nameOf={nameOf}
        empty="No stored log records match the filter. New records appear here as they arrive."
      />
      <div className="mt-2 flex flex-wrap items-center gap-2">
        <LiveBadge live={feed.state.live} />
        {away > 0 && robot_id === undefined && (
          <span className="text-xs text-muted">
            {away} of {robots.length} robots are offline. Their records appear when they connect.
          </span>
        )}
        <div className="min-w-64 flex-1">
          <Command>{robot_id === undefined ? logCommand("fleets", id, search) : logCommand("robots", robot_id, search)}</Command>
        </div>
      </div>
    </div>
  );
}

/** Loads the robots of a fleet in pages, up to `ROBOTS_MAX`. */
function useRobots(fleet_id: string) {
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    pagesQuery("listRobots", { query: { fleet_id, limit: PAGE_ROWS } }),
  );
  const robots = useMemo(() => rowsOf(data), [data]);
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && robots.length < ROBOTS_MAX) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, robots.length, fetchNextPage]);
  return robots;
}
