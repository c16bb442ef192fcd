import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import type { ReactNode } from "react";
import type { LogSearch } from "../../search.ts";
import { FilterSelect, TimeInput, TypedSearch } from "../../ui/index.ts";

const HOUR_MS = 3_600_000;
const PERIODS = [
  { value: "15m", label: "last 15 minutes" },
  { value: "1h", label: "last hour" },
  { value: "6h", label: "last 6 hours" },
  { value: "24h", label: "last 24 hours" },
  { value: "7d", label: "last 7 days" },
  { value: "between", label: "custom range…" },
] as const;
const LEVELS = LOG_LEVELS.slice(1).map((value) => ({ value, label: value === "fatal" ? value : `${value} and above` }));

type Shown = Pick<LogSearch, "q" | "level" | "since" | "until">;

interface LogFilterBarProps {
  label: string;
  search: Shown;
  onSearch: (part: Shown) => void;
  /** The name of the period that is shown without a filter, which is then not among the options. */
  period?: string;
  /** Shown after the sentence about the time zone. */
  hint?: string;
  /** Further filters. */
  children: ReactNode;
  /** Shown after the filters. */
  actions: ReactNode;
}

/** The filters of log records by text, level and time, which all pages with logs have. */
export function LogFilterBar({ label, search, onSearch, period, hint = "", children, actions }: LogFilterBarProps) {
  const { q, level, since, until } = search;
  const is_between = until !== undefined || (since !== undefined && !PERIODS.some(({ value }) => value === since));
  // The empty option already names this period.
  const shown_since = PERIODS.find(({ value }) => value === since)?.label === period ? undefined : since;
  return (
    <div className="mb-3 space-y-2">
      <div className="flex flex-wrap items-center gap-2" role="search" aria-label={label}>
        <TypedSearch label="Search messages" value={q} onValue={(text) => onSearch({ q: text })} className="sm:!w-64" />
        <FilterSelect
          label="Level"
          value={level === LOG_LEVELS[0] ? undefined : level}
          options={LEVELS}
          onChange={(value) => onSearch({ level: value })}
        />
        {children}
        <FilterSelect
          label="Time"
          none={period ?? "any"}
          value={is_between ? "between" : shown_since}
          options={PERIODS.filter((one) => one.label !== period)}
          // A custom range begins with the last hour.
          onChange={(value) =>
            onSearch({ since: value === "between" ? new Date(Date.now() - HOUR_MS).toISOString() : value, until: undefined })
          }
        />
        {actions}
      </div>
      {is_between && (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <TimeInput label="From" value={since} onValue={(value) => onSearch({ since: value })} />
          <TimeInput label="To" value={until} onValue={(value) => onSearch({ until: value })} />
          <span className="text-xs text-muted">Times are in this browser's time zone. {hint}</span>
        </div>
      )}
    </div>
  );
}
