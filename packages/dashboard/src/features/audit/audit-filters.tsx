import { paths } from "@roamfleet/protocol/paths";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { query } from "../../api/queries.ts";
import { Button, cx, FilterSelect, SearchInput } from "../../ui/index.ts";
import { actionWords } from "./action-words.ts";
import { type AuditSearch, fromLocalInput, toLocalInput } from "./audit-search.ts";

/** All action names: routes that change data, and stream events. */
const ACTIONS = ["stream.opened", "stream.closed", ...Object.entries(paths).flatMap(([name, [method]]) => (method === "GET" ? [] : [name]))]
  .map((value) => ({ value, label: actionWords(value) }))
  .toSorted((a, b) => a.label.localeCompare(b.label));
const OUTCOMES = [
  { value: "done", label: "done" },
  { value: "refused", label: "refused" },
];

interface Parts {
  search: AuditSearch;
  onChange: (change: AuditSearch) => void;
}

export function AuditFilters({ search, onChange }: Parts) {
  const [is_open, setOpen] = useState(false);
  return (
    <>
      <FilterSelect label="Action" value={search.action} options={ACTIONS} onChange={(action) => onChange({ action })} />
      <Button className="sm:hidden" aria-expanded={is_open} onClick={() => setOpen(!is_open)}>
        {is_open ? "Fewer filters" : "More filters"}
      </Button>
      <div className={cx("contents", !is_open && "max-sm:hidden")}>
        <RarerFilters search={search} onChange={onChange} />
      </div>
    </>
  );
}

/** Filters that are collapsed on narrow screens. */
function RarerFilters({ search, onChange }: Parts) {
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const tokens = useQuery(query("listTokens")).data?.items ?? [];
  const actors = [
    ...users.map(({ id, name }) => ({ value: id, label: name })),
    ...tokens.filter(({ user_id }) => user_id === null).map(({ id, label, prefix }) => ({ value: id, label: `token ${label ?? prefix}` })),
  ];
  // The URL may name an actor that is not listed, such as a robot or a removed user.
  const known = search.actor_id === undefined || actors.some(({ value }) => value === search.actor_id);
  return (
    <>
      <FilterSelect
        label="User"
        value={search.actor_id}
        options={known ? actors : [...actors, { value: search.actor_id!, label: search.actor_id! }]}
        onChange={(actor_id) => onChange({ actor_id })}
      />
      <FilterSelect
        label="Outcome"
        value={search.outcome}
        options={OUTCOMES}
        onChange={(outcome) => onChange({ outcome: outcome as AuditSearch["outcome"] })}
      />
      <ObjectFilter object_id={search.object_id} onChange={onChange} />
      <TimeFilter label="Since" value={search.since} onChange={(since) => onChange({ since })} />
      <TimeFilter label="Until" value={search.until} onChange={(until) => onChange({ until })} />
    </>
  );
}

/** A field for a pasted ID. The filter applies on submit. */
function ObjectFilter({ object_id, onChange }: { object_id: string | undefined; onChange: (change: AuditSearch) => void }) {
  const [text, setText] = useState(object_id ?? "");
  useEffect(() => setText(object_id ?? ""), [object_id]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onChange({ object_id: text.trim() || undefined });
  };
  return (
    <form onSubmit={submit} className="w-36 max-sm:w-full">
      <SearchInput
        label="Object ID"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          if (event.target.value === "") onChange({ object_id: undefined });
        }}
        onBlur={() => {
          if ((text.trim() || undefined) !== object_id) onChange({ object_id: text.trim() || undefined });
        }}
      />
    </form>
  );
}

function TimeFilter({ label, value, onChange }: { label: string; value: string | undefined; onChange: (at: string | undefined) => void }) {
  return (
    <label className="flex items-center gap-1.5 text-muted max-sm:w-full">
      <span className="max-sm:w-10">{label}</span>
      <input
        type="datetime-local"
        className="h-8 rounded-md border border-line-strong bg-surface px-1.5 text-ink max-sm:min-w-0 max-sm:flex-1"
        value={toLocalInput(value)}
        onChange={(event) => onChange(fromLocalInput(event.target.value))}
      />
    </label>
  );
}
