import { ApiError, Unreachable } from "@roamfleet/sdk/browser";
import { CloudOff, Inbox, Lock, type LucideIcon, SearchX, ServerCrash, TriangleAlert } from "lucide-react";
import { createContext, type ReactNode, use, useState } from "react";
import { Button, LinkButton } from "./button.tsx";
import { Command } from "./copy.tsx";
import { sentence } from "./format.ts";
import { useOutage } from "./outage.ts";
import { cx, Time } from "./text.tsx";

interface EmptyStateProps {
  icon?: LucideIcon;
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
  command?: string;
  /** Whether the text is an error. Screen readers announce errors. */
  is_error?: boolean;
}

/** Shown for an empty list: what will appear there and how to create it. */
export function EmptyState({ icon: Icon = Inbox, title, children, actions, command, is_error = false }: EmptyStateProps) {
  return (
    <div
      role={is_error ? "alert" : undefined}
      className="mx-auto flex max-w-md flex-col items-center gap-2 px-4 py-12 text-center [overflow-wrap:anywhere]"
    >
      <Icon size={28} aria-hidden className={is_error ? "text-bad" : "text-muted"} />
      <h2 className="font-semibold">{title}</h2>
      {children !== undefined && <div className="text-balance text-muted">{children}</div>}
      {Boolean(actions) && <div className="mt-2 flex flex-wrap justify-center gap-2">{actions}</div>}
      {command !== undefined && (
        <div className="mt-2 w-full text-left">
          <Command>{command}</Command>
        </div>
      )}
    </div>
  );
}

/** Shown if no row matches the filters. */
export const NoMatch = ({ title, onClear, children }: { title: string; onClear: () => void; children?: ReactNode }) => (
  <EmptyState title={title} actions={<Button onClick={() => onClear()}>Clear filters</Button>}>
    {children}
  </EmptyState>
);

/** Whether the content is one of several parts of a page. Its errors are then one line, so that the other parts stay in view. */
export const PartContext = createContext(false);

export const isNotFound = (error: unknown): error is ApiError => error instanceof ApiError && error.status === 404;

const isServerError = (error: unknown): error is ApiError => error instanceof ApiError && error.status >= 500;

/** Shows an error and, with `onRetry`, a button that retries. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  const is_part = use(PartContext);
  const { text, ...shown } = explain(error);
  if (is_part)
    return (
      <ErrorBar onRetry={onRetry}>
        {isServerError(error) ? (
          <>
            <strong className="font-semibold">Not loaded.</strong> {sentence(`${error.message}${requestText(error)}`)}
          </>
        ) : (
          <>
            <strong className="font-semibold">{shown.title}.</strong> {text}
          </>
        )}
      </ErrorBar>
    );
  const action = isNotFound(error) ? (
    <LinkButton to="/">Go to overview</LinkButton>
  ) : (
    onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>
  );
  return (
    <EmptyState is_error actions={action} {...shown}>
      {text}
    </EmptyState>
  );
}

function ErrorBar({ children, onRetry }: { children: ReactNode; onRetry?: (() => void) | undefined }) {
  return (
    <div role="alert" className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-md bg-bad-soft px-3 py-2">
      <p className="min-w-0 flex-1 [overflow-wrap:anywhere]">{children}</p>
      {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** Shows the message of an error, below the input that caused it. Renders nothing if there is no error. */
export const ErrorText = ({ error, className }: { error: Error | null; className?: string }) =>
  error !== null && (
    <p role="alert" className={cx("text-left whitespace-normal text-bad [overflow-wrap:anywhere]", className)}>
      {error.message}
    </p>
  );

/** The ID under which the log of the server has the request. */
const requestText = (error: unknown): string =>
  error instanceof ApiError && error.request_id !== undefined ? ` (request ${error.request_id})` : "";

function explain(error: unknown): { icon: LucideIcon; title: string; text: string } {
  if (error instanceof Unreachable)
    return {
      icon: CloudOff,
      title: "The server is not responding",
      text: "The data shown may be out of date. The page retries automatically.",
    };
  if (error instanceof ApiError && error.status === 403)
    return { icon: Lock, title: "You don't have access", text: sentence(error.message) };
  if (isNotFound(error))
    return {
      icon: SearchX,
      title: "Not found",
      text: `${sentence(error.message)} It may have been deleted, or you may not have access to it.`,
    };
  const text = `${error instanceof Error ? error.message : String(error)}${requestText(error)}`;
  if (isServerError(error))
    return {
      icon: ServerCrash,
      title: "The server cannot answer",
      text: `${sentence(text)} The page retries automatically. If this continues, check the log of the server.`,
    };
  return { icon: TriangleAlert, title: "Something went wrong", text: sentence(text) };
}

/** Gray placeholders while the first response is loading. They appear after a delay, so that fast responses show none. */
export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading" data-skeleton className="appear-late space-y-2 py-2">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="h-7 animate-pulse rounded bg-active" style={{ width: `${100 - ((row * 17) % 35)}%` }} />
      ))}
    </div>
  );
}

/** The result of a query, or of several. */
export interface Loaded<T> {
  data: T | undefined;
  /** Time of the last successful response, in ms of the browser's clock. */
  dataUpdatedAt?: number;
  isError: boolean;
  error: unknown;
  /** The error of the last attempt while the request is retried. */
  failureReason?: unknown;
  /** Number of failures since the query was created, each after all retries. */
  errorUpdateCount?: number;
  refetch: () => Promise<unknown>;
}

const isRefusal = (error: unknown): boolean => error instanceof ApiError && (error.status === 403 || error.status === 404);

/**
 * Whether a query has no data because the server fails or does not respond, even while the request is repeated. `isError` is false until all
 * retries have failed, and again during each automatic retry. A refusal does not count.
 */
export const hasFailed = ({ data, isError, error, failureReason = null, errorUpdateCount = 0 }: Loaded<unknown>): boolean =>
  data === undefined && (isError || failureReason !== null || errorUpdateCount > 0) && !isRefusal(error ?? failureReason);

/** Combines queries into one with this data. It fails if one of them fails. */
export function combineLoaded<T>(queries: readonly Loaded<unknown>[], data: T | undefined): Loaded<T> {
  const failed = queries.find(({ isError }) => isError);
  return {
    data,
    isError: failed !== undefined,
    error: failed?.error ?? null,
    failureReason: queries.find(({ failureReason }) => Boolean(failureReason))?.failureReason ?? null,
    errorUpdateCount: Math.max(0, ...queries.map(({ errorUpdateCount = 0 }) => errorUpdateCount)),
    refetch: () => Promise.all(queries.map((one) => one.refetch())),
  };
}

/** Shows the placeholder, the error or the data of a query. Data stays visible while it is refetched, and with a notice if that fails. */
export function QueryState<T>({ query, children, rows }: { query: Loaded<T>; children: (data: T) => ReactNode; rows?: number }) {
  const is_outage = useOutage() !== undefined;
  const error = useFailure(query);
  if (query.data !== undefined)
    return (
      <>
        {query.isError && !is_outage && <RefetchError query={query} />}
        {children(query.data)}
      </>
    );
  // A placeholder would suggest that the data is about to appear.
  if (is_outage) return <p className="py-2 text-muted">Not loaded: the server is not responding</p>;
  if (error !== null) return <ErrorState error={error} onRetry={() => void query.refetch()} />;
  return <Skeleton {...(rows === undefined ? {} : { rows })} />;
}

/** Returns why a query has no data; null before the first failure. A retry clears the query's error, but the page keeps showing it. */
function useFailure({ error, failureReason, errorUpdateCount = 0 }: Loaded<unknown>): unknown {
  const current = error ?? failureReason ?? null;
  const [last, setLast] = useState(current);
  if (current !== null && current !== last) setLast(current);
  return current ?? (errorUpdateCount > 0 ? last : null);
}

/** A notice above data that could not be refetched. During an outage of the server, the frame of all pages shows a notice instead. */
function RefetchError({ query: { error, dataUpdatedAt, refetch } }: { query: Loaded<unknown> }) {
  return (
    <ErrorBar onRetry={() => void refetch()}>
      <strong className="font-semibold">Not up to date.</strong> {sentence(error instanceof Error ? error.message : String(error))}
      {dataUpdatedAt !== undefined && (
        <>
          {" "}
          Data from <Time at={new Date(dataUpdatedAt).toISOString()} exact />
        </>
      )}
    </ErrorBar>
  );
}
