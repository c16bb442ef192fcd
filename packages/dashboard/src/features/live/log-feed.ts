import { isLogCursor, readLogFrame } from "@roamfleet/protocol/log-frame";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { api } from "../../api/client.ts";
import { mayPass } from "../../api/query-client.ts";
import { type Following, followStream, type LiveState } from "./live-stream.tsx";
import { createLogBuffer, type LogBuffer, type LogStore } from "./log-buffer.ts";
import type { LogFilter } from "./log-text.ts";

/** The state before the first page. */
const NOTHING_YET: LogFeedState = {
  buffer: { rows: [], waiting: 0, not_kept: 0, is_cut: false, sources: [] },
  live: undefined,
  is_loading: true,
  is_loading_older: false,
  has_older: false,
  error: undefined,
};

const PAGE_RECORDS = 200;
/** Delay before the first page is requested again, if the server failed or did not respond. */
const RETRY_MS = 5_000;
/** Frames within this time are rendered in one batch. */
const GATHER_MS = 50;

export interface LogOf {
  of: "robots" | "fleets";
  id: string;
  filter: LogFilter;
}

interface LogFeedState {
  buffer: LogBuffer;
  /** State of the stream of new records. Undefined if there is no stream: the filter has an end time, or the first page is loading. */
  live: LiveState | undefined;
  is_loading: boolean;
  is_loading_older: boolean;
  has_older: boolean;
  /** Error of the first page or of the last request for older records. */
  error: unknown;
}

/** Loads the newest records, streams new ones, and loads older ones on request, until `close`. */
function openLogFeed({ of, id, filter }: LogOf) {
  const buffer = createLogBuffer({ many: of === "fleets" });
  const aborting = new AbortController();
  const listeners = new Set<() => void>();
  let state = NOTHING_YET;
  let cursor: string | null = null;
  let following: Following | undefined;
  let askAgain = (): void => {};

  const become = (next: Partial<LogFeedState>): void => {
    state = { ...state, ...next, buffer: buffer.read() };
    for (const listener of listeners) listener();
  };
  const begin = (is_anew = false): void => {
    if (!is_anew) become({ is_loading: true, error: undefined });
    const take = ({ items, next_cursor }: Page): void => {
      cursor = next_cursor;
      buffer.add(items);
      become({ is_loading: false, has_older: cursor !== null, error: undefined });
      // A log with an end time gets no new records.
      if (filter.until === undefined) following = followLog({ of, id, filter }, buffer, become, readAnew);
    };
    const fail = (error: unknown): void => become({ is_loading: false, error });
    askAgain = askFirstPage({ of, id, filter }, aborting.signal, take, fail);
  };
  // Reload an empty log after the first record of its stream. The stream started without a position, so records between the load of the
  // empty page and the stream's start may be missing.
  const readAnew = (): void => {
    if (following === undefined) return;
    following.close();
    following = undefined;
    begin(true);
  };
  begin();

  return {
    read: (): LogFeedState => state,
    subscribe: (listener: () => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** Loads the next older page; does nothing while one is loading. */
    loadOlder(): void {
      if (cursor === null || state.is_loading_older || state.is_loading) return;
      become({ is_loading_older: true, error: undefined });
      const take = ({ items, next_cursor }: Page): void => {
        cursor = next_cursor;
        buffer.addOlder(items);
        become({ is_loading_older: false, has_older: cursor !== null });
      };
      askPage({ of, id, filter }, cursor, aborting.signal, take, (error) => become({ is_loading_older: false, error }));
    },
    hold: (): void => buffer.hold(),
    /** Returns false if the feed must be opened again to be live. */
    release(): boolean {
      const done = buffer.release();
      become({});
      return done;
    },
    /** Reconnects the stream, or loads the log again if the first page failed. */
    again(): void {
      if (following !== undefined) return following.again();
      if (state.error !== undefined) askAgain();
    },
    close(): void {
      aborting.abort();
      following?.close();
    },
  };
}

/** Streams new records into the buffer in batches. Calls `onFirst` instead for the first record of an empty log. */
function followLog(
  { of, id, filter: { level, source, q } }: LogOf,
  buffer: LogStore,
  become: (next: Partial<LogFeedState>) => void,
  onFirst: () => void,
): Following {
  let gathered: LogRecord[] = [];
  let gathering: ReturnType<typeof setTimeout> | undefined;
  /** Cursor at which an interrupted stream resumes; empty until the stream has sent one. */
  let cursor = "";
  /**
   * False after the server refused the cursor, because the cursor has expired or because a server of an earlier version refuses all
   * cursors.
   */
  let by_cursor = true;
  const flush = (): void => {
    gathering = undefined;
    buffer.add(gathered);
    gathered = [];
    become({});
  };
  const following = followStream({
    name: of === "fleets" ? "fleet_logs" : "logs",
    id,
    what: "these logs",
    query: () => {
      if (!by_cursor) return { level, source, q, after: buffer.after };
      return { level, source, q, cursor, after: cursor === "" ? buffer.after : undefined };
    },
    onBadQuery: () => {
      by_cursor = !by_cursor;
      return !by_cursor;
    },
    onState: (live) => {
      // After a successful connection, try the cursor again: the next connection may reach another server.
      if (live.is === "open") by_cursor = true;
      become({ live });
    },
    onFrame: (data) => {
      const frame = typeof data === "string" ? readLogFrame(data) : undefined;
      if (frame === undefined) return;
      if (isLogCursor(frame)) return void (cursor = frame.cursor);
      if (buffer.after === undefined && frame.fields["gap"] === undefined) return onFirst();
      gathered.push(frame);
      gathering ??= setTimeout(flush, GATHER_MS);
    },
  });
  return {
    again: () => following.again(),
    close: () => {
      clearTimeout(gathering);
      following.close();
    },
  };
}

type LogFeed = ReturnType<typeof openLogFeed>;

interface Page {
  items: LogRecord[];
  next_cursor: string | null;
}

/**
 * Loads the first page, and again after failures that may pass. Until the next answer, the last error stays in view. Returns a function that
 * repeats the request now.
 */
function askFirstPage(log: LogOf, signal: AbortSignal, take: (page: Page) => void, failed: (error: unknown) => void): () => void {
  let retrying: ReturnType<typeof setTimeout> | undefined;
  let is_asking = false;
  const ask = (): void => {
    clearTimeout(retrying);
    if (is_asking) return;
    is_asking = true;
    const end =
      <T>(then: (answer: T) => void) =>
      (answer: T): void => {
        is_asking = false;
        then(answer);
      };
    const fail = (error: unknown): void => {
      failed(error);
      if (mayPass(error)) retrying = setTimeout(ask, RETRY_MS);
    };
    askPage(log, undefined, signal, end(take), end(fail));
  };
  signal.addEventListener("abort", () => clearTimeout(retrying));
  ask();
  return ask;
}

/** Loads one page; ignores the response after the feed was closed. */
function askPage(
  log: LogOf,
  cursor: string | undefined,
  signal: AbortSignal,
  take: (page: Page) => void,
  failed: (error: unknown) => void,
): void {
  void readPage(log, cursor, signal).then(
    (page) => !signal.aborted && take(page),
    (error: unknown) => !signal.aborted && failed(error),
  );
}

async function readPage({ of, id, filter }: LogOf, cursor: string | undefined, signal: AbortSignal) {
  const args = { params: { id }, query: { ...filter, limit: PAGE_RECORDS, ...(cursor === undefined ? {} : { cursor }) }, signal };
  return (await (of === "robots" ? api.call("listRobotLogs", args) : api.call("listFleetLogs", args))).body;
}

/** Returns the URL that exports the same records. */
export function exportUrl({ of, id, filter }: LogOf): string {
  const query = new URLSearchParams(Object.entries(filter)).toString();
  return `/api/${of}/${encodeURIComponent(id)}/logs/export${query === "" ? "" : `?${query}`}`;
}

export interface UsedLogFeed {
  state: LogFeedState;
  loadOlder: () => void;
  hold: () => void;
  /** Shows the waiting records and resumes following. */
  follow: () => void;
  again: () => void;
}

/** Follows a log while the component is mounted. A `log` with different content opens a new feed. */
export function useLogFeed(log: LogOf, is_online: boolean): UsedLogFeed {
  const [feed, setFeed] = useState<LogFeed>();
  const [opened, setOpened] = useState(0);
  const key = JSON.stringify(log);
  useEffect(() => {
    const next = openLogFeed(JSON.parse(key) as LogOf);
    setFeed(next);
    return () => next.close();
  }, [key, opened]);
  const nothing = useCallback(() => () => {}, []);
  const state = useSyncExternalStore(feed?.subscribe ?? nothing, () => feed?.read() ?? NOTHING_YET);
  // Reconnect when the robot is online again.
  useEffect(() => {
    if (is_online && feed?.read().live?.is === "offline") feed.again();
  }, [feed, is_online]);
  return useMemo(
    () => ({
      state,
      loadOlder: () => feed?.loadOlder(),
      hold: () => feed?.hold(),
      follow: () => {
        if (feed?.release() === false) setOpened((count) => count + 1);
      },
      again: () => feed?.again(),
    }),
    [feed, state],
  );
}
