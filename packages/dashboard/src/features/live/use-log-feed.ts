import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { type LogFeed, type LogFeedState, type LogOf, NOTHING_YET, openLogFeed } from "./log-feed.ts";

export interface UsedLogFeed {
  state: LogFeedState;
  loadOlder: () => void;
  hold: () => void;
  /** Shows what waited, and follows again. */
  follow: () => void;
  again: () => void;
}

/** A log that is followed while the component is there. Another `log` (by its content) is read anew. */
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
  // It was told that the robot is not there; now it is.
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
