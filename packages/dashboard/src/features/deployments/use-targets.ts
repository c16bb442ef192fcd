import type { DeploymentTarget } from "@roamfleet/protocol/routes";
import type { InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { type Change, type ChangeSummary, isSummary, useChanges } from "../../api/events.ts";
import { useLivePages } from "../../api/live-pages.ts";
import { queryClient } from "../../api/query-client.ts";
import { latestStatuses, patchPages } from "./patch-targets.ts";
import type { DeploymentSearch } from "./search.ts";

/** Changes within this time are rendered in one batch: four renderings per second feel live. */
const GATHER_MS = 250;

type Pages = InfiniteData<{ items: readonly DeploymentTarget[]; next_cursor: string | null }, string | undefined>;
type ListName = "listDeploymentTargets" | "listConfigDeploymentTargets";

export const targetKey = ({ id }: DeploymentTarget): string => id;
/**
 * Loads the robots of a deployment in pages and updates them live: a change is applied to its row immediately. Visible rows are then
 * refetched for fields that changes do not contain, such as bytes and reasons.
 */
export function useTargets(name: ListName, id: string, search: DeploymentSearch) {
  usePatches(name, id);
  const { status, wave, q } = search;
  return useLivePages(name, targetKey, {
    params: { id },
    query: {
      ...(status === undefined ? {} : { status }),
      // Config deployments have no waves.
      ...(wave === undefined || name === "listConfigDeploymentTargets" ? {} : { wave: wave - 1 }),
      ...(q === undefined ? {} : { q }),
    },
  });
}

function usePatches(name: ListName, id: string): void {
  const gathered = useRef<Change[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), [id]);
  useChanges(
    useCallback(
      (change: Change | ChangeSummary) => {
        // A summary contains only the number of changes: the visible rows are refetched.
        if (isSummary(change) || change.deployment_id !== id || change.status === undefined) return;
        gathered.current.push(change);
        timer.current ??= setTimeout(() => {
          timer.current = undefined;
          const latest = latestStatuses(gathered.current.splice(0), id);
          queryClient.setQueriesData<Pages>({ queryKey: [name, { params: { id } }] }, (data) =>
            data === undefined || !("pages" in data) ? data : { ...data, pages: patchPages(data.pages, latest) },
          );
        }, GATHER_MS);
      },
      [name, id],
    ),
  );
}
