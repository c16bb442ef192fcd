import type { TimelineEntry } from "@roamfleet/protocol/routes";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useLivePages } from "../../api/live-pages.ts";
import type { TimelineSearch } from "../../search.ts";
import {
  Button,
  CardList,
  Command,
  cx,
  EmptyState,
  type Filters,
  FilterSelect,
  QueryState,
  Text,
  TextLine,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { robotLines, TIMELINE_KINDS, timelineQuery } from "./robot-text.ts";

const route = getRouteApi("/app/robots/$id/timeline");
const PAGE_ROWS = 50;
const KINDS = Object.entries(TIMELINE_KINDS).map(([value, label]) => ({ value, label }));

/** All events of a robot, newest first. */
export function RobotTimeline() {
  const { id } = route.useParams();
  const filters = useFilters(route.useSearch());
  const { query, rows, has_more, onEnd } = useLivePages("listRobotTimeline", {
    params: { id },
    query: { ...timelineQuery(filters.search), limit: PAGE_ROWS },
  });
  return (
    <>
      <TimelineFilters {...filters} />
      <QueryState query={query} rows={8}>
        {() =>
          rows.length === 0 ? (
            <EmptyState
              title={filters.is_filtered ? "No matching events" : "No events yet"}
              actions={filters.is_filtered && <Button onClick={() => filters.clear()}>Clear filters</Button>}
            />
          ) : (
            <>
              <TimelineList entries={rows} exact />
              {has_more && (
                <div className="my-3 flex justify-center">
                  <Button onClick={onEnd} busy={query.isFetchingNextPage}>
                    Load older events
                  </Button>
                </div>
              )}
            </>
          )
        }
      </QueryState>
      <div className="mt-4 max-w-xl">
        <Command>{robotLines.timeline(id)}</Command>
      </div>
    </>
  );
}

function TimelineFilters({ search: { kind, from, to }, change, clear, is_filtered }: Filters<TimelineSearch>) {
  const kinds = kind === undefined || Object.hasOwn(TIMELINE_KINDS, kind) ? KINDS : [...KINDS, { value: kind, label: kind }];
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Timeline">
      <FilterSelect label="Kind" value={kind} options={kinds} onChange={(value) => change({ kind: value })} />
      <Day label="From" value={from} onChange={(value) => change({ from: value || undefined })} />
      <Day label="To" value={to} onChange={(value) => change({ to: value || undefined })} />
      {is_filtered && (
        <Button look="quiet" onClick={() => clear()}>
          Clear
        </Button>
      )}
    </div>
  );
}

function Day({ label, value, onChange }: { label: string; value: string | undefined; onChange: (day: string) => void }) {
  return (
    <label className="inline-flex items-center gap-1.5 text-muted">
      {label}
      <input
        type="date"
        value={value ?? ""}
        onChange={({ target }) => onChange(target.value)}
        className="h-8 rounded-md border border-line-strong bg-surface px-2 text-ink"
      />
    </label>
  );
}

/** Timeline entries, newest first, with their actors. */
export function TimelineList({ entries, exact = false }: { entries: readonly TimelineEntry[]; exact?: boolean }) {
  return (
    <CardList items={entries} ordered>
      {(entry) => (
        <li key={entry.id} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2 sm:flex-nowrap">
          <span className={cx("shrink-0 text-xs text-muted", exact ? "sm:w-44" : "sm:w-20")}>
            <Time at={entry.at} exact={exact} />
          </span>
          <span className="ml-auto min-w-0 shrink-0 text-xs text-muted max-sm:max-w-[50%] sm:order-last sm:max-w-40">
            <TextLine>{actorText(entry.actor)}</TextLine>
          </span>
          <span className="min-w-0 flex-1 max-sm:w-full max-sm:flex-none">
            <Text>{entry.summary}</Text> <Where entry={entry} />
          </span>
        </li>
      )}
    </CardList>
  );
}

const actorText = ({ type, name }: TimelineEntry["actor"]): string =>
  name ?? { user: "a user", org_token: "a token", robot: "the robot", system: "the server", admin: "the service administrator" }[type];

/** A link to the object of an entry. */
function Where({ entry: { kind, data } }: { entry: TimelineEntry }) {
  const { deployment_id, session_id } = data;
  const className = "ml-1 whitespace-nowrap text-xs text-accent underline";
  if (typeof deployment_id === "string")
    return kind.startsWith("config.") ? (
      <Link to="/config-deployments/$id" params={{ id: deployment_id }} className={className}>
        deployment
      </Link>
    ) : (
      <Link to="/deployments/$id" params={{ id: deployment_id }} className={className}>
        deployment
      </Link>
    );
  // Connections have a session ID too, but no page.
  if (typeof session_id === "string" && kind.startsWith("shell."))
    return (
      <Link to="/shells/$id" params={{ id: session_id }} className={className}>
        session
      </Link>
    );
  return null;
}
