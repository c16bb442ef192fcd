import type { RouteName } from "@roamfleet/protocol/paths";
import { useCallback, useEffect, useRef } from "react";
import { type Change, type ChangeSummary, useChanges } from "../../api/events.ts";
import { readAgain } from "../../api/read-again.ts";

/** A list of deployments is read again this often while robots of some go on: their counts move with each robot. */
const REREAD_MS = 2_000;

/** Keeps the counts of a list of deployments fresh: changes of single robots make no list stale by themselves. */
export function useFreshCounts(name: RouteName, kind: "target" | "config_target"): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  useChanges(
    useCallback(
      (change: Change | ChangeSummary) => {
        if (change.kind !== kind || timer.current !== undefined) return;
        timer.current = setTimeout(() => {
          timer.current = undefined;
          readAgain([name]);
        }, REREAD_MS);
      },
      [name, kind],
    ),
  );
}
