import type { Change } from "../../api/stale.ts";

export interface TargetRow {
  robot_id: string;
  status: string;
  reason: string | null;
  waiting_for: string | null;
  progress: { bytes_done: number; bytes_total: number } | null;
}

const ENDED: ReadonlySet<string> = new Set(["applied", "failed", "rolled_back", "cancelled"]);

/** Returns the latest status of each robot from changes of one deployment's targets. */
export function latestStatuses(changes: Iterable<Change>, deployment_id: string): Map<string, string> {
  const latest = new Map<string, string>();
  for (const { kind, deployment_id: of, robot_id, status } of changes)
    if ((kind === "target" || kind === "config_target") && of === deployment_id && robot_id !== undefined && status !== undefined)
      latest.set(robot_id, status);
  return latest;
}

/**
 * Returns the pages of targets with the new statuses. Unchanged pages and rows stay the same objects, so that React does not render
 * them again. Clears fields that the new status invalidates: what the robot waits for and its download progress.
 */
export function patchPages<Page extends { items: readonly TargetRow[] }>(
  pages: readonly Page[],
  latest: ReadonlyMap<string, string>,
): Page[] {
  return pages.map((page) => {
    let changed = false;
    const items = page.items.map((row) => {
      const status = latest.get(row.robot_id);
      if (status === undefined || status === row.status) return row;
      changed = true;
      return { ...row, status, waiting_for: null, progress: ENDED.has(status) ? null : row.progress };
    });
    return changed ? { ...page, items } : page;
  });
}
