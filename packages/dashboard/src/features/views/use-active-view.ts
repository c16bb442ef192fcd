import type { SavedView } from "@roamfleet/protocol/routes";
import { useLocation } from "@tanstack/react-router";
import { useLayoutEffect } from "react";
import { isSameView, readView, type ViewContent } from "../../api/view-query.ts";
import { hasFilters } from "../../search.ts";
import { showTableAs } from "../../ui/index.ts";

/**
 * Returns the view that a page shows, perhaps with unsaved changes: the one that the page was opened with, or one of `views` with exactly
 * the filters and columns shown. While the page shows the opened view, its table has the columns of the view.
 */
export function useActiveView(views: readonly SavedView[], content: ViewContent, table: string | undefined): SavedView | undefined {
  const opened_id = useLocation({ select: ({ state }) => state.view_id });
  const opened = views.find(({ id }) => id === opened_id);
  useLayoutEffect(() => {
    const columns = opened === undefined ? undefined : readView(opened.query).table;
    return columns === undefined || table === undefined ? undefined : showTableAs(table, columns);
    // oxlint-disable-next-line react/exhaustive-deps -- the same view with other columns was just saved
  }, [opened?.id, table]);
  if (opened !== undefined) return opened;
  return hasFilters(content.search) ? views.find(({ query }) => isSameView(query, content)) : undefined;
}
