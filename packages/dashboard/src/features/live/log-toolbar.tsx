import { Download, WrapText } from "lucide-react";
import { useEffect, useId, useState } from "react";
import type { LogSearch } from "../../search.ts";
import { AnchorButton, Button, FilterSelect, namedOptions } from "../../ui/index.ts";
import { LogFilterBar } from "./log-filter-bar.tsx";

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
  const { wrap, robot_id } = search;
  return (
    <LogFilterBar
      label="Filter log"
      search={search}
      onSearch={onSearch}
      hint="With an end time, new records do not appear."
      actions={
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
      }
    >
      <SourceInput value={search.source} sources={sources} onSearch={onSearch} />
      {robots !== undefined && (
        <FilterSelect label="Robot" value={robot_id} options={namedOptions(robots)} onChange={(value) => onSearch({ robot_id: value })} />
      )}
    </LogFilterBar>
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
