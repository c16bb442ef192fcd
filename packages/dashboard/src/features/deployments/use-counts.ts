import type { RouteName } from "@roamfleet/protocol/paths";
import { useCallback, useEffect, useRef } from "react";
import { type Change, type ChangeSummary, useChanges } from "../../api/events.ts";
import { readAgain } from "../../api/read-again.ts";

/** Refetch interval of a list while robots of its deployments change: their counts change with each robot. */
const REREAD_MS = 2_000;

/** Keeps the counts in a list of deployments up to date. Changes of single robots do not invalidate lists. */
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
