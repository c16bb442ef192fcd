import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useMemo } from "react";
import { pagesQuery, query, rowsOf } from "../../api/queries.ts";
import { hasFilters, type LogSearch } from "../../search.ts";
import { Command, LoadedPage, PageHeader, Text, useFilters } from "../../ui/index.ts";
import { LiveBadge, LiveNotice } from "./live-stream.tsx";
import { exportUrl, type LogOf, useLogFeed } from "./log-feed.ts";
import { filterOf, logCommand } from "./log-text.ts";
import { LogToolbar, type LogToolbarProps } from "./log-toolbar.tsx";
import { LogView, type LogViewProps } from "./log-view.tsx";

/** The log of a robot: stored and live records. */
export function RobotLogs() {
  const { id } = useParams({ from: "/app/robots/$id/logs" });
  const { search, change } = useFilters(useSearch({ from: "/app/robots/$id/logs" }));
  const robot = useQuery(query("getRobot", { params: { id } })).data?.data;
  return (
    <div className="flex h-[calc(100dvh-12.5rem)] min-h-96 flex-col">
      <LogPane
        label="Robot log"
        of="robots"
        id={id}
        search={search}
        onSearch={change}
        is_online={robot?.status === "online"}
        offline="The records below were received before the robot went offline."
      />
    </div>
  );
}

interface LogPaneProps extends Pick<LogViewProps, "label" | "nameOf">, Pick<LogToolbarProps, "search" | "onSearch" | "robots"> {
  of: LogOf["of"];
  id: string;
  is_online: boolean;
  /** Text that is shown while the robot is offline. */
  offline?: string;
  /** Shown beside the state of the stream. */
  note?: ReactNode;
}

/** A log with its filters, its state and the equivalent command. */
function LogPane({ of, id, search, onSearch, is_online, robots, offline, note, ...view }: LogPaneProps) {
  const log = useLog(of, id, search);
  const feed = useLogFeed(log, is_online);
  const { live, buffer } = feed.state;
  const is_filtered = hasFilters({ ...search, robot_id: undefined, wrap: undefined });
  return (
    <>
      <LogToolbar
        search={search}
        onSearch={onSearch}
        sources={buffer.sources}
        export_url={exportUrl(log)}
        {...(robots === undefined ? {} : { robots })}
      />
      {/* The page of a robot has its own notice that the robot is not connected. */}
      {(live?.is !== "offline" || buffer.rows.length > 0 || offline === undefined) && (
        <LiveNotice live={live} onAgain={feed.again}>
          {live?.is === "offline" && offline}
        </LiveNotice>
      )}
      <LogView
        feed={feed}
        wanted={search.q ?? ""}
        wrap={search.wrap === true}
        empty={`${is_filtered ? "No stored log records match the filter." : "No log records are stored yet."} New records appear here as they arrive.`}
        {...view}
      />
      <div className="mt-2 flex flex-wrap items-center gap-2">
        <LiveBadge live={live} />
        {note}
        <div className="min-w-64 flex-1 max-sm:basis-full">
          <Command>{logCommand(of, id, search)}</Command>
        </div>
      </div>
    </>
  );
}

/**
 * Returns the log that the URL parameters select. Relative times such as `2h` count from the first rendering, so that later renderings
 * return the same log.
 */
function useLog(of: LogOf["of"], id: string, search: LogSearch): LogOf {
  const { level, source, q, since, until } = search;
  return useMemo(
    () => ({ of, id, filter: filterOf(JSON.parse(JSON.stringify({ level, source, q, since, until })) as LogSearch, Date.now()) }),
    [of, id, level, source, q, since, until],
  );
}

/** Maximum robots whose names are loaded. Others are shown by ID. */
const ROBOTS_MAX = 5_000;
const PAGE_ROWS = 1_000;

/** The combined log of a fleet, with a color and a name for each robot. */
export function FleetLogsPage() {
  const { id } = useParams({ from: "/app/fleets/$id/logs" });
  const fleet = useQuery(query("getFleet", { params: { id } }));
  return (
    <LoadedPage title="Fleet logs" query={fleet}>
      {(data) => (
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
                Go to fleet
              </Link>
            }
          />
          <FleetLog id={id} />
        </>
      )}
    </LoadedPage>
  );
}

function FleetLog({ id }: { id: string }) {
  const { search, change } = useFilters(useSearch({ from: "/app/fleets/$id/logs" }));
  const robots = useRobots(id);
  const names = useMemo(() => new Map(robots.map((robot) => [robot.id, robot.name])), [robots]);
  const nameOf = useCallback((robot_id: string) => names.get(robot_id) ?? robot_id, [names]);
  const { robot_id } = search;
  const away = robots.filter(({ status }) => status !== "online").length;
  return (
    <div className="flex h-[calc(100dvh-8rem)] min-h-96 flex-col">
      <LogPane
        label="Fleet log"
        of={robot_id === undefined ? "fleets" : "robots"}
        id={robot_id ?? id}
        search={search}
        onSearch={change}
        robots={robots}
        {...(robot_id === undefined ? { nameOf } : {})}
        is_online={robots.find((robot) => robot.id === robot_id)?.status === "online"}
        note={
          away > 0 &&
          robot_id === undefined && (
            <span className="text-xs text-muted">
              Robots not connected: {away} of {robots.length}. Their records appear when they connect.
            </span>
          )
        }
      />
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
