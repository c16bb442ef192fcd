import type { DeploymentTarget } from "@roamfleet/protocol/routes";
import type { InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { type Change, type ChangeSummary, isSummary, useChanges } from "../../api/events.ts";
import { useLivePages } from "../../api/live-pages.ts";
import { queryClient } from "../../api/query-client.ts";
import { latestStatuses, patchPages } from "./patch-targets.ts";
import type { DeploymentSearch } from "./search.ts";

/** Changes within this time are drawn together: four drawings a second feel live. */
const GATHER_MS = 250;

type Pages = InfiniteData<{ items: readonly DeploymentTarget[]; next_cursor: string | null }, string | undefined>;
type ListName = "listDeploymentTargets" | "listConfigDeploymentTargets";

export const targetKey = ({ id }: DeploymentTarget): string => id;
/**
 * Robots of a deployment, by the page, and live: what a robot's change tells is put into its row at once, and the rows on the
 * screen are read again behind it for what a change does not tell, such as bytes and reasons.
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
        // Of many changes only their number is known: the rows on the screen are read again.
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
