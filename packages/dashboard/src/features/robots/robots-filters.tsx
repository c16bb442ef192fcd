import { useQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { query } from "../../api/queries.ts";
import { Button, cx, FilterSelect, type Option, SearchInput, Text } from "../../ui/index.ts";
import { readLabel } from "./labels.ts";
import type { Places } from "./place-names.ts";
import { isFiltered, labelsOf, type RobotsSearch } from "./robots-search.ts";

/** Debounce of the search field. */
const TYPING_MS = 250;

export interface FiltersProps {
  search: RobotsSearch;
  places: Places;
  onChange: (search: RobotsSearch) => void;
}

const options = (texts: Record<string, string>): Option[] => Object.entries(texts).map(([value, label]) => ({ value, label }));
const STATUSES = options({ online: "Online", offline: "Offline", never_connected: "Never connected", decommissioned: "Decommissioned" });
const HEALTH = options({ ok: "Healthy", failing: "Failing", unknown: "Health unknown" });
const RELEASE = options({ current: "Release current", behind: "Release behind", failed: "Release failed", unknown: "Release unknown" });
const CONFIG = options({ in_sync: "Config in sync", pending: "Config pending", drifted: "Config drifted", unknown: "Config unknown" });
const SORTS = options({ name: "Sort: name" });

/** The filters of the list. The server applies them, so that the result is complete. */
export function RobotsFilters({ search, places, onChange }: FiltersProps) {
  const set: Set = (part) => onChange({ ...search, ...part } as RobotsSearch);
  const [is_open, setOpen] = useState(false);
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Robots">
      <TextFilter value={search.q ?? ""} onChange={(q) => set({ q: q === "" ? undefined : q })} />
      <FilterSelect label="Status" value={search.status} options={STATUSES} onChange={(status) => set({ status })} />
      <Button className="sm:hidden" aria-expanded={is_open} onClick={() => setOpen(!is_open)}>
        {is_open ? "Fewer filters" : "More filters"}
      </Button>
      <div className={cx("contents", !is_open && "max-sm:hidden")}>
        <RarerFilters search={search} places={places} set={set} />
      </div>
      {isFiltered(search) && (
        <Button look="quiet" onClick={() => onChange(search.sort === undefined ? {} : { sort: search.sort })}>
          Clear
        </Button>
      )}
    </div>
  );
}

type Set = (part: Partial<Record<keyof RobotsSearch, string | string[] | undefined>>) => void;

/** Filters that are collapsed on narrow screens. */
function RarerFilters({ search, places, set }: { search: RobotsSearch; places: Places; set: Set }) {
  return (
    <>
      <FilterSelect label="Health" value={search.health} options={HEALTH} onChange={(health) => set({ health })} />
      <FilterSelect label="Fleet" value={search.fleet_id} options={named(places.fleets)} onChange={(fleet_id) => set({ fleet_id })} />
      <FilterSelect label="Site" value={search.site_id} options={named(places.sites)} onChange={(site_id) => set({ site_id })} />
      <ReleaseFilter value={search.release_id} onChange={(release_id) => set({ release_id })} />
      <FilterSelect
        label="Release state"
        value={search.release_state}
        options={RELEASE}
        onChange={(release_state) => set({ release_state })}
      />
      <FilterSelect label="Config" value={search.config_state} options={CONFIG} onChange={(config_state) => set({ config_state })} />
      <LabelFilter labels={labelsOf(search)} onChange={(label) => set({ label: label.length === 0 ? undefined : label })} />
      <FilterSelect
        label="Order"
        none="newest"
        value={search.sort === "name" ? "name" : undefined}
        options={SORTS}
        onChange={(sort) => set({ sort })}
      />
    </>
  );
}

const named = (places: readonly { id: string; name: string }[]): Option[] => places.map(({ id, name }) => ({ value: id, label: name }));

function TextFilter({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed.trim() === value) return undefined;
    const timer = setTimeout(() => onChange(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
    // `onChange` is a new function on each render, with the same effect.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [typed, value]);
  return (
    <SearchInput
      label="Search by name"
      className="max-sm:!max-w-none sm:!w-52"
      value={typed}
      maxLength={200}
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}

/** Loads releases only when the filter is opened. */
function ReleaseFilter({ value, onChange }: { value: string | undefined; onChange: (id: string | undefined) => void }) {
  const [is_wanted, setWanted] = useState(value !== undefined);
  const releases = useQuery({ ...query("listReleases", { query: { limit: 200 } }), enabled: is_wanted || value !== undefined });
  const known = (releases.data?.items ?? []).map(({ id, tag, app }) => ({ value: id, label: `${app} ${tag}` }));
  const shown = value === undefined || known.some((option) => option.value === value) ? known : [{ value, label: value }, ...known];
  return (
    <span onPointerEnter={() => setWanted(true)} onFocus={() => setWanted(true)}>
      <FilterSelect label="Runs release" value={value} options={shown} onChange={onChange} />
    </span>
  );
}

function LabelFilter({ labels, onChange }: { labels: readonly string[]; onChange: (labels: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const read = readLabel(typed);
  const add = (): void => {
    if (read === undefined) return;
    onChange([...new Set([...labels, `${read[0]}:${read[1]}`])]);
    setTyped("");
  };
  return (
    <>
      <form
        className="flex items-center"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <input
          aria-label="Label, as key:value"
          placeholder="label key:value"
          value={typed}
          maxLength={300}
          onChange={(event) => setTyped(event.target.value)}
          className="h-8 w-36 rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted"
        />
        {read !== undefined && (
          <button type="submit" aria-label="Add label filter" className="-ml-8 inline-flex size-7 items-center justify-center">
            <Plus size={14} aria-hidden />
          </button>
        )}
      </form>
      {labels.map((label) => (
        <Chip key={label} label={label} onRemove={() => onChange(labels.filter((each) => each !== label))}>
          {label}
        </Chip>
      ))}
    </>
  );
}

function Chip({ label, children, onRemove }: { label: string; children: string; onRemove: () => void }): ReactNode {
  return (
    <span className="inline-flex h-8 max-w-60 items-center gap-1 rounded-md bg-accent-soft pl-2 text-accent">
      <Text line>{children}</Text>
      <button
        type="button"
        aria-label={`Remove label filter ${label}`}
        onClick={onRemove}
        className="inline-flex size-7 items-center justify-center rounded"
      >
        <X size={12} aria-hidden />
      </button>
    </span>
  );
}
