import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { type LogFeed, type LogFeedState, type LogOf, NOTHING_YET, openLogFeed } from "./log-feed.ts";

export interface UsedLogFeed {
  state: LogFeedState;
  loadOlder: () => void;
  hold: () => void;
  /** Shows the waiting records and resumes following. */
  follow: () => void;
  again: () => void;
}

/** Follows a log while the component is mounted. A `log` with different content opens a new feed. */
export function useLogFeed(log: LogOf, is_online: boolean | undefined): UsedLogFeed {
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
  // The robot was offline and is online again.
  useEffect(() => {
    if (is_online === true && feed?.read().live?.is === "offline") feed.again();
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
