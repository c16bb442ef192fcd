import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { query } from "../../api/queries.ts";
import { Command } from "../../ui/index.ts";
import { LiveBadge, LiveNotice } from "./live-notice.tsx";
import { exportUrl, type LogOf } from "./log-feed.ts";
import { filterOf, logCommand, type LogSearch } from "./log-search.ts";
import { LogToolbar } from "./log-toolbar.tsx";
import { LogView } from "./log-view.tsx";
import { useLogFeed } from "./use-log-feed.ts";

/** The log of a robot: stored and live records. */
export function RobotLogs() {
  const { id } = useParams({ from: "/app/robots/$id/logs" });
  const search = useSearch({ from: "/app/robots/$id/logs" });
  const navigate = useNavigate({ from: "/robots/$id/logs" });
  const robot = useQuery(query("getRobot", { params: { id } })).data?.data;
  const log = useLog("robots", id, search);
  const feed = useLogFeed(log, robot?.status === "online");
  const change = (part: Partial<Record<keyof LogSearch, unknown>>): void =>
    void navigate({ search: (old) => ({ ...old, ...part }) as LogSearch, replace: true });
  return (
    <div className="flex h-[calc(100dvh-12.5rem)] min-h-96 flex-col">
      <LogToolbar search={search} onSearch={change} sources={feed.state.buffer.sources} export_url={exportUrl(log)} />
      <LiveNotice live={feed.state.live} onAgain={feed.again}>
        {feed.state.live?.is === "offline" && "The records below were received before."}
      </LiveNotice>
      <LogView
        label="Robot log"
        feed={feed}
        wanted={search.q ?? ""}
        wrap={search.wrap === true}
        empty="No stored log records match the filter. New records appear here as they arrive."
      />
      <div className="mt-2 flex items-center gap-2">
        <LiveBadge live={feed.state.live} />
        <div className="min-w-0 flex-1">
          <Command>{logCommand("robots", id, search)}</Command>
        </div>
      </div>
    </div>
  );
}

/** Returns the log for the URL parameters. Durations count from the first rendering, so that the log stays the same. */
export function useLog(of: LogOf["of"], id: string, search: LogSearch): LogOf {
  const { level, source, q, since, until } = search;
  return useMemo(
    () => ({ of, id, filter: filterOf(JSON.parse(JSON.stringify({ level, source, q, since, until })) as LogSearch, Date.now()) }),
    [of, id, level, source, q, since, until],
  );
}
