import type { TimelineEntry } from "@roamfleet/protocol/routes";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useLivePages } from "../../api/live-pages.ts";
import { Button, Command, EmptyState, FilterSelect, QueryState } from "../../ui/index.ts";
import { robotLines } from "./robot-lines.ts";
import { TimelineList } from "./timeline-list.tsx";
import { TIMELINE_KINDS, timelineQuery, type TimelineSearch } from "./timeline-search.ts";

const route = getRouteApi("/app/robots/$id/timeline");
const idOf = ({ id }: TimelineEntry): string => id;
const PAGE_ROWS = 50;
const KINDS = Object.entries(TIMELINE_KINDS).map(([value, label]) => ({ value, label }));

/** All events of a robot, newest first. */
export function RobotTimeline() {
  const { id } = route.useParams();
  const search = route.useSearch();
  const navigate = useNavigate();
  const { query, rows, has_more, onEnd } = useLivePages("listRobotTimeline", idOf, {
    params: { id },
    query: { ...timelineQuery(search), limit: PAGE_ROWS },
  });
  const change = (next: TimelineSearch): void => void navigate({ to: "/robots/$id/timeline", params: { id }, search: next, replace: true });
  const is_filtered = Object.keys(search).length > 0;
  return (
    <>
      <TimelineFilters search={search} onChange={change} />
      <QueryState query={query} rows={8}>
        {() =>
          rows.length === 0 ? (
            <EmptyState
              title={is_filtered ? "No matching events" : "No events yet"}
              actions={is_filtered && <Button onClick={() => change({})}>Clear filters</Button>}
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

function TimelineFilters({ search, onChange }: { search: TimelineSearch; onChange: (search: TimelineSearch) => void }) {
  const { kind } = search;
  const kinds = kind === undefined || Object.hasOwn(TIMELINE_KINDS, kind) ? KINDS : [...KINDS, { value: kind, label: kind }];
  const set = (name: keyof TimelineSearch, value: string | undefined): void => {
    const { [name]: _, ...others } = search;
    onChange(value === undefined || value === "" ? others : { ...others, [name]: value });
  };
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Timeline">
      <FilterSelect label="Kind" value={kind} options={kinds} onChange={(value) => set("kind", value)} />
      <Day label="From" value={search.from} onChange={(value) => set("from", value)} />
      <Day label="To" value={search.to} onChange={(value) => set("to", value)} />
      {Object.keys(search).length > 0 && (
        <Button look="quiet" onClick={() => onChange({})}>
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
        onChange={(event) => onChange(event.target.value)}
        className="h-8 rounded-md border border-line-strong bg-surface px-2 text-ink"
      />
    </label>
  );
}
