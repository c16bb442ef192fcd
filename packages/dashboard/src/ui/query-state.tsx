import { ApiError, Unreachable } from "@roamfleet/sdk/browser";
import type { UseQueryResult } from "@tanstack/react-query";
import { CloudOff, Inbox, Lock, SearchX, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "./button.tsx";
import { Command } from "./copy.tsx";

/** Nothing is there: why, and what to do. */
export function EmptyState({
  title,
  children,
  actions,
  command,
}: {
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
  command?: string;
}) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center">
      <Inbox size={28} aria-hidden className="text-muted" />
      <h2 className="font-semibold">{title}</h2>
      {children !== undefined && <div className="text-muted">{children}</div>}
      {actions !== undefined && <div className="mt-2 flex flex-wrap justify-center gap-2">{actions}</div>}
      {command !== undefined && (
        <div className="mt-2 w-full text-left">
          <Command>{command}</Command>
        </div>
      )}
    </div>
  );
}

/** Nothing is there because of the filters. */
export const NoMatch = ({ title, onShowAll }: { title: string; onShowAll: () => void }) => (
  <EmptyState title={title} actions={<Button onClick={onShowAll}>Show all</Button>} />
);

/** What went wrong, in words, and a way on. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { icon: Icon, title, text } = explain(error);
  return (
    <div role="alert" className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center">
      <Icon size={28} aria-hidden className="text-bad" />
      <h2 className="font-semibold">{title}</h2>
      <p className="text-muted [overflow-wrap:anywhere]">{text}</p>
      {onRetry !== undefined && (
        <Button className="mt-2" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

function explain(error: unknown): { icon: typeof Inbox; title: string; text: string } {
  if (error instanceof Unreachable)
    return {
      icon: CloudOff,
      title: "The server does not answer",
      text: "What you see may be out of date. This page tries again by itself.",
    };
  if (error instanceof ApiError && error.status === 403) return { icon: Lock, title: "Your role does not reach here", text: error.message };
  if (error instanceof ApiError && error.status === 404)
    return {
      icon: SearchX,
      title: "Not here",
      text: `${error.message}. It was removed, is in another org, or is outside of what you may see.`,
    };
  const detail = error instanceof ApiError && error.request_id !== undefined ? ` (request ${error.request_id})` : "";
  return { icon: TriangleAlert, title: "Something went wrong", text: `${error instanceof Error ? error.message : String(error)}${detail}` };
}

/** Grey shapes while the first answer is on its way; nothing for what comes at once. */
export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" className="appear-late space-y-2 py-2">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="h-7 animate-pulse rounded bg-active" style={{ width: `${100 - ((row * 17) % 35)}%` }} />
      ))}
    </div>
  );
}

/** What a page shows of a query: the skeleton, the error, or its data. Data that was read once stays while it is read again. */
export function QueryState<T>({ query, children, rows }: { query: UseQueryResult<T>; children: (data: T) => ReactNode; rows?: number }) {
  if (query.data !== undefined) return children(query.data);
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  return <Skeleton {...(rows === undefined ? {} : { rows })} />;
}
