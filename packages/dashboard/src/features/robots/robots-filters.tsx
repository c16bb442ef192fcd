import { useQuery } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { useState } from "react";
import { type Places, query, useHostedVersion } from "../../api/queries.ts";
import type { RobotsSearch } from "../../search.ts";
import { Button, FilterSelect, MoreFilters, namedOptions, TextLine, TypedSearch } from "../../ui/index.ts";
import { readLabel } from "./robot-text.ts";
import { isFiltered, labelsOf } from "./robots-search.ts";

interface FiltersProps {
  search: RobotsSearch;
  places: Places;
  onChange: (part: RobotsSearch) => void;
}

const options = <V extends string>(texts: Record<V, string>) =>
  (Object.entries(texts) as [V, string][]).map(([value, label]) => ({ value, label }));
const STATUSES = options({ online: "Online", offline: "Offline", never_connected: "Never connected", decommissioned: "Decommissioned" });
const HEALTH = options({ ok: "Healthy", failing: "Unhealthy", unknown: "Health unknown" });
const RELEASE = options({ current: "Release current", behind: "Release behind", failed: "Last update failed", unknown: "Release unknown" });
const CONFIG = options({ in_sync: "Config in sync", pending: "Config pending", drifted: "Config drifted", unknown: "Config not deployed" });
const SORTS = options({ name: "Sort: name" });

/** The filters of the list. The server applies them, so that the result is complete. */
export function RobotsFilters({ search, places, onChange, onClear }: FiltersProps & { onClear: () => void }) {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Robots">
      <TypedSearch
        label="Search by name"
        className="max-sm:!max-w-none sm:!w-52"
        value={search.q}
        onValue={(q) => onChange({ q: q?.trim() || undefined })}
      />
      <FilterSelect label="Status" value={search.status} options={STATUSES} onChange={(status) => onChange({ status })} />
      <MoreFilters>
        <RarerFilters search={search} places={places} onChange={onChange} />
      </MoreFilters>
      {isFiltered(search) && (
        <Button look="quiet" onClick={onClear}>
          Clear
        </Button>
      )}
    </div>
  );
}

/** Filters that are collapsed on narrow screens. */
function RarerFilters({ search, places, onChange }: FiltersProps) {
  return (
    <>
      <FilterSelect label="Health" value={search.health} options={HEALTH} onChange={(health) => onChange({ health })} />
      <FilterSelect
        label="Fleet"
        value={search.fleet_id}
        options={namedOptions(places.fleets)}
        onChange={(fleet_id) => onChange({ fleet_id })}
      />
      <FilterSelect
        label="Site"
        value={search.site_id}
        options={namedOptions(places.sites)}
        onChange={(site_id) => onChange({ site_id })}
      />
      <ReleaseFilter value={search.release_id} onChange={(release_id) => onChange({ release_id })} />
      <FilterSelect
        label="Release state"
        value={search.release_state}
        options={RELEASE}
        onChange={(release_state) => onChange({ release_state })}
      />
      <FilterSelect label="Config" value={search.config_state} options={CONFIG} onChange={(config_state) => onChange({ config_state })} />
      <AgentFilter value={search.agent_older_than} onChange={(agent_older_than) => onChange({ agent_older_than })} />
      <LabelFilter labels={labelsOf(search)} onChange={(label) => onChange({ label: label.length === 0 ? undefined : label })} />
      <FilterSelect
        label="Sort"
        none="newest"
        value={search.sort === "newest" ? undefined : search.sort}
        options={SORTS}
        onChange={(sort) => onChange({ sort })}
      />
    </>
  );
}

/** Filters robots with an outdated agent. Hidden while the server hosts no packages. */
function AgentFilter({ value, onChange }: { value: string | undefined; onChange: (version: string | undefined) => void }) {
  const hosted = useHostedVersion();
  const shown = [...new Set([hosted, value])].filter((version) => version !== undefined);
  if (shown.length === 0) return null;
  const options = shown.map((version) => ({ value: version, label: `Agent older than ${version}` }));
  return <FilterSelect label="Agent" value={value} options={options} onChange={onChange} />;
}

/** Filters the robots by release. The releases are loaded when the user opens the filter. */
function ReleaseFilter({ value, onChange }: { value: string | undefined; onChange: (id: string | undefined) => void }) {
  const [is_wanted, setWanted] = useState(value !== undefined);
  const releases = useQuery({ ...query("listReleases", { query: { limit: 200 } }), enabled: is_wanted || value !== undefined });
  const known = (releases.data?.items ?? []).map(({ id, tag, app }) => ({ value: id, label: `${app} ${tag}` }));
  const shown = value === undefined || known.some((option) => option.value === value) ? known : [{ value, label: value }, ...known];
  return (
    <span onPointerEnter={() => setWanted(true)} onFocus={() => setWanted(true)}>
      <FilterSelect label="Installed release" value={value} options={shown} onChange={onChange} />
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
          placeholder="Label key:value"
          value={typed}
          maxLength={300}
          onChange={({ target }) => setTyped(target.value)}
          className="h-8 w-36 rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted"
        />
        {read !== undefined && (
          <button type="submit" aria-label="Add label filter" className="-ml-8 inline-flex size-7 items-center justify-center">
            <Plus size={14} aria-hidden />
          </button>
        )}
      </form>
      {labels.map((label) => (
        <span key={label} className="inline-flex h-8 max-w-60 items-center gap-1 rounded-md bg-accent-soft pl-2 text-accent">
          <TextLine>{label}</TextLine>
          <button
            type="button"
            aria-label={`Remove label filter ${label}`}
            onClick={() => onChange(labels.filter((each) => each !== label))}
            className="inline-flex size-7 items-center justify-center rounded"
          >
            <X size={12} aria-hidden />
          </button>
        </span>
      ))}
    </>
  );
}
