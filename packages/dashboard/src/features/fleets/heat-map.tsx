import type { Robot } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, memo, type MouseEvent, useCallback, useEffect, useRef, useState } from "react";
import { api } from "../../api/client.ts";
import { useChanges } from "../../api/events.ts";
import { type Change, type ChangeSummary } from "../../api/stale.ts";
import { Button, cx, EmptyState, LinkButton, QueryState, Section } from "../../ui/index.ts";
import { countHeats, type Heat, heatOf, HEATS, moveFocus, summarize, wordsOf } from "./heat.ts";

/** Maximum robots of a fleet whose heat map shows the robots' names. */
const NAMED_MAX = 40;

/** A heat map of a fleet: one cell per robot, colored by its worst state. */
export function HeatMap({ fleet_id, total }: { fleet_id: string; total: number }) {
  // Store the cursors of all visited pages, so that the user can go back: a cursor leads to the next page only.
  const [cursors, setCursors] = useState<readonly (string | undefined)[]>([undefined]);
  const [only, setOnly] = useState<Heat>();
  const page = useHeat(fleet_id, cursors.at(-1));
  if (total === 0)
    return (
      <EmptyState
        title="No robots in this fleet yet"
        actions={
          <LinkButton look="primary" to="/enrollment/new" search={{ fleet_id }}>
            Enroll robots
          </LinkButton>
        }
      />
    );
  return (
    <Section title="Health">
      <QueryState query={page}>
        {({ items, next_cursor }) => (
          <>
            <Summary robots={items} only={only} onOnly={setOnly} />
            <Cells robots={items} only={only} is_named={total <= NAMED_MAX} />
            {(cursors.length > 1 || next_cursor !== null) && (
              <div className="mt-2 flex items-center gap-2">
                <Button disabled={cursors.length === 1} onClick={() => setCursors((before) => before.slice(0, -1))}>
                  Previous
                </Button>
                <Button disabled={next_cursor === null} onClick={() => setCursors((before) => [...before, next_cursor ?? undefined])}>
                  Next
                </Button>
                <span className="text-muted">
                  page {cursors.length} of {Math.max(cursors.length, Math.ceil(total / HEAT_ROBOTS))}, sorted by name
                </span>
              </div>
            )}
          </>
        )}
      </QueryState>
    </Section>
  );
}

/** The number of robots in each state. A click shows only robots in this state. */
function Summary({ robots, only, onOnly }: { robots: readonly Robot[]; only: Heat | undefined; onOnly: (heat: Heat | undefined) => void }) {
  return (
    <div className="mb-2 flex flex-wrap items-center gap-1.5">
      <p className="sr-only" role="status">
        {summarize(robots)}
      </p>
      {countHeats(robots).map(({ heat, count }) => (
        <button
          key={heat}
          type="button"
          aria-pressed={only === heat}
          onClick={() => onOnly(only === heat ? undefined : heat)}
          className={cx(
            "inline-flex min-h-7 items-center gap-1.5 rounded-md border px-2 text-xs hover:bg-hover",
            only === heat ? "border-accent bg-accent-soft" : "border-line",
          )}
        >
          <Sign heat={heat} />
          <span className="tabular-nums">{count.toLocaleString()}</span> {wordsOf(heat)}
        </button>
      ))}
    </div>
  );
}

const styleOf = (heat: Heat): (typeof HEATS)[number] => HEATS.find((one) => one.heat === heat)!;

function Sign({ heat }: { heat: Heat }) {
  const { sign, style } = styleOf(heat);
  return (
    <span aria-hidden className={cx("inline-flex size-4 items-center justify-center rounded-sm text-xs leading-none font-bold", style)}>
      {sign}
    </span>
  );
}

/** Returns the number of cells in the first row. */
function columnsOf(cells: readonly HTMLElement[]): number {
  const second_row = cells.findIndex(({ offsetTop }) => offsetTop !== cells[0]?.offsetTop);
  return second_row === -1 ? cells.length : second_row;
}

/** The grid of robots. It is one tab stop: arrow keys move between robots, and Enter opens a robot's page. */
function Cells({ robots, only, is_named }: { robots: readonly Robot[]; only: Heat | undefined; is_named: boolean }) {
  const navigate = useNavigate();
  const grid = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState(0);
  const at = Math.min(focused, robots.length - 1);
  const press = (event: KeyboardEvent): void => {
    const cells = [...(grid.current?.querySelectorAll("a") ?? [])];
    const next = moveFocus(event.key, at, robots.length, columnsOf(cells));
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setFocused(next);
    cells[next]?.focus();
  };
  const open = (event: MouseEvent): void => {
    const id = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-robot]")?.dataset.robot : undefined;
    if (id === undefined || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    void navigate({ to: "/robots/$id", params: { id } });
  };
  return (
    <div
      ref={grid}
      role="group"
      aria-label={`Robots: ${summarize(robots)} Use arrow keys to move and Enter to open.`}
      onKeyDown={press}
      onClick={open}
      className={
        is_named
          ? "grid grid-cols-[repeat(auto-fill,minmax(9rem,1fr))] gap-1"
          : "flex flex-wrap content-start max-sm:max-h-80 max-sm:overflow-y-auto"
      }
    >
      {robots.map((robot, index) => (
        <Cell
          key={robot.id}
          id={robot.id}
          name={robot.name}
          heat={heatOf(robot)}
          why={robot.failing.join(", ")}
          is_stop={index === at}
          is_dim={only !== undefined && heatOf(robot) !== only}
          is_named={is_named}
        />
      ))}
    </div>
  );
}

interface CellParts {
  id: string;
  name: string;
  heat: Heat;
  /** The names of failing checks. */
  why: string;
  is_stop: boolean;
  is_dim: boolean;
  /** Whether the cell shows the robot's name. */
  is_named: boolean;
}

/** The minimum size of a touch target. In pixels, so that it does not depend on the font size. */
const SQUARE = "size-[24px] justify-center";
const CHIP = "h-7 min-w-0 gap-1.5 bg-sunken px-1.5 text-xs hover:bg-hover";

/** One robot of the map. Uses a plain link, because each of a thousand router links would subscribe to the router. */
const Cell = memo(function Cell({ id, name, heat, why, is_stop, is_dim, is_named }: CellParts) {
  const { sign, style } = styleOf(heat);
  const words = `${name.slice(0, 200)}: ${wordsOf(heat)}${heat === "failing" && why !== "" ? `, ${why.slice(0, 300)}` : ""}`;
  return (
    <a
      href={`/robots/${id}`}
      data-robot={id}
      data-heat={heat}
      tabIndex={is_stop ? 0 : -1}
      aria-label={words}
      title={words}
      className={cx("inline-flex items-center rounded", is_named ? CHIP : SQUARE)}
    >
      <span
        aria-hidden
        className={cx(
          "flex size-[18px] shrink-0 items-center justify-center rounded-sm text-xs leading-none font-bold",
          style,
          is_dim && "opacity-25",
        )}
      >
        {sign}
      </span>
      {is_named && <bdi className={cx("block min-w-0 truncate", is_dim && "text-muted")}>{name}</bdi>}
    </a>
  );
});

/** Robots per page of the map. */
const HEAT_ROBOTS = 1_000;
/** Minimum interval between refetches: a page of a thousand robots is one megabyte. */
const FOLLOW_MS = 2_000;

interface HeatPage {
  items: Robot[];
  next_cursor: string | null;
}

/**
 * Loads one page of a fleet's robots, sorted by name, and refetches it after changes, rate-limited. The query key differs from that of
 * other robot lists, because every change refetches those lists immediately.
 */
function useHeat(fleet_id: string, cursor: string | undefined) {
  const client = useQueryClient();
  const is_stale = useRef(false);
  const watch = useCallback(
    ({ kind, fleet_id: of, from_fleet_id: from }: Change | ChangeSummary) => {
      if ((kind === "robot" && (of === undefined || of === fleet_id || from === fleet_id)) || kind === "target") is_stale.current = true;
    },
    [fleet_id],
  );
  useChanges(watch);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!is_stale.current || document.visibilityState !== "visible") return;
      is_stale.current = false;
      void client.invalidateQueries({ queryKey: ["heat", fleet_id] });
    }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [client, fleet_id]);
  return useQuery<HeatPage>({
    queryKey: ["heat", fleet_id, cursor ?? null],
    queryFn: async ({ signal }) => await api.listRobots({ query: { fleet_id, sort: "name", limit: HEAT_ROBOTS, cursor }, signal }),
    placeholderData: keepPreviousData,
  });
}
