import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import { DataTable, type DataTableProps } from "./data-table.tsx";
import { ErrorState, Skeleton } from "./query-state.tsx";

/** A table of a paginated list. Loads further pages while scrolling, and shows the loading and error states. */
export function ListTable<Row>({
  list,
  ...table
}: Omit<DataTableProps<Row>, "rows" | "onEnd" | "has_more"> & { list: UseInfiniteQueryResult<InfiniteData<{ items: readonly Row[] }>> }) {
  if (list.data === undefined)
    return list.isError ? <ErrorState error={list.error} onRetry={() => void list.refetch()} /> : <Skeleton rows={8} />;
  return (
    <DataTable
      {...table}
      rows={list.data.pages.flatMap(({ items }) => [...items])}
      has_more={list.hasNextPage}
      onEnd={() => {
        if (!list.isFetchingNextPage) void list.fetchNextPage();
      }}
    />
  );
}
