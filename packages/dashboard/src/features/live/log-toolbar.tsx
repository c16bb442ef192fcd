import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import { Download, WrapText } from "lucide-react";
import { useEffect, useId, useState } from "react";
import type { LogSearch } from "../../search.ts";
import { AnchorButton, Button, FilterSelect, namedOptions, TimeInput, TypedSearch } from "../../ui/index.ts";

const SINCE = [
  { value: "15m", label: "last 15 minutes" },
  { value: "1h", label: "last hour" },
  { value: "6h", label: "last 6 hours" },
  { value: "24h", label: "last 24 hours" },
  { value: "7d", label: "last 7 days" },
  { value: "between", label: "custom range…" },
] as const;

export interface LogToolbarProps {
  search: LogSearch;
  onSearch: (part: LogSearch) => void;
  sources: readonly string[];
  export_url: string;
  /** The robots that the user can select; only in a fleet's log. */
  robots?: readonly { id: string; name: string }[];
}

/** The filters of a log. They are in the URL. */
export function LogToolbar({ search, onSearch, sources, export_url, robots }: LogToolbarProps) {
  const { level, q, since, until, wrap, robot_id } = search;
  const [is_between, setBetween] = useState(until !== undefined || (since !== undefined && !SINCE.some(({ value }) => value === since)));
  return (
    <div className="mb-2 space-y-2">
      <div className="flex flex-wrap items-center gap-2" role="search" aria-label="Filter log">
        <TypedSearch label="Search messages" value={q} onValue={(text) => onSearch({ q: text })} className="sm:!w-64" />
        <FilterSelect
          label="Level"
          value={level}
          options={LOG_LEVELS.slice(1).map((value) => ({ value, label: value === "fatal" ? value : `${value} and above` }))}
          onChange={(value) => onSearch({ level: value })}
        />
        <SourceInput value={search.source} sources={sources} onSearch={onSearch} />
        {robots !== undefined && (
          <FilterSelect label="Robot" value={robot_id} options={namedOptions(robots)} onChange={(value) => onSearch({ robot_id: value })} />
        )}
        <FilterSelect
          label="Time"
          value={is_between ? "between" : since}
          options={SINCE}
          onChange={(value) => {
            setBetween(value === "between");
            if (value !== "between") onSearch({ since: value, until: undefined });
          }}
        />
        <span className="flex gap-2 sm:ml-auto">
          <Button
            look="quiet"
            icon={WrapText}
            aria-pressed={wrap === true}
            onClick={() => onSearch({ wrap: wrap === true ? undefined : true })}
            className={wrap === true ? "bg-active" : ""}
          >
            <span>
              Wrap<span className="max-sm:hidden"> lines</span>
            </span>
          </Button>
          <AnchorButton href={export_url} download icon={Download} title="Download all records that match the filter, as JSON lines">
            Download
          </AnchorButton>
        </span>
      </div>
      {is_between && (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
          <TimeInput label="From" value={since} onValue={(value) => onSearch({ since: value })} />
          <TimeInput label="Until" value={until} onValue={(value) => onSearch({ until: value })} />
          <span className="text-xs text-muted">Times are in this browser's time zone. With an end time, new records do not appear.</span>
        </div>
      )}
    </div>
  );
}

function SourceInput({
  value,
  sources,
  onSearch,
}: { value: string | undefined; sources: readonly string[] } & Pick<LogToolbarProps, "onSearch">) {
  const list = useId();
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const pass = (next: string): void => {
    if (next !== (value ?? "")) onSearch({ source: next === "" ? undefined : next });
  };
  return (
    <>
      <input
        aria-label="Source"
        placeholder="Source: any"
        list={list}
        maxLength={200}
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          // Apply the filter immediately if the text was selected from the list or cleared.
          if (target.value === "" || sources.includes(target.value)) pass(target.value);
        }}
        onBlur={() => pass(text)}
        onKeyDown={(event) => event.key === "Enter" && pass(text)}
        className="h-8 w-40 rounded-md border border-line-strong bg-surface px-2.5 text-ink placeholder:text-muted"
      />
      <datalist id={list}>
        {sources.map((source) => (
          <option key={source} value={source} />
        ))}
      </datalist>
    </>
  );
}
