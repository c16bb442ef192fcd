import { DEPLOYMENT_STATUSES } from "@roamfleet/protocol/states";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { GitCompare, Rocket, X } from "lucide-react";
import { useState } from "react";
import { ObjectPicker } from "../../api/object-picker.tsx";
import { usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { type DeploymentsSearch, hasFilters } from "../../search.ts";
import {
  Button,
  Checkbox,
  copyAsRf,
  cx,
  FilterSelect,
  IconButton,
  LinkButton,
  Menu,
  namedOptions,
  PageHeader,
  shellLine,
  Time,
  useFilters,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { ConfigDeploymentTable, DeploymentTable } from "./deployment-tables.tsx";

const route = getRouteApi("/app/deployments");
const NONE: ReadonlySet<string> = new Set();
const COMPARED = 2;

/** All deployments, newest first. */
export function DeploymentsPage() {
  const filters = useFilters(route.useSearch());
  const { search } = filters;
  const navigate = useNavigate();
  const may_deploy = useMay("operator");
  const [selected, setSelected] = useState(NONE);
  const change = (part: DeploymentsSearch): void => {
    setSelected(NONE);
    filters.change(part);
  };
  const clear = (): void => {
    setSelected(NONE);
    filters.clear({ tab: search.tab });
  };
  const [a, b] = [...selected];
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Deployments"
        label="Deployments"
        actions={
          <>
            <ViewsMenu page="deployments" search={search} />
            {search.tab === undefined && (
              <Button
                icon={GitCompare}
                disabled={selected.size !== COMPARED}
                title={selected.size === COMPARED ? undefined : "Select two deployments to compare them"}
                onClick={() => {
                  if (a !== undefined && b !== undefined) void navigate({ to: "/deployments/compare", search: { a: b, b: a } });
                }}
              >
                Compare {selected.size > 0 && `${selected.size} of 2`}
              </Button>
            )}
            {may_deploy && (
              <LinkButton to="/deployments/new" look="primary" icon={Rocket}>
                Deploy
              </LinkButton>
            )}
            <Menu label="More" entries={[copyAsRf(listCommand(search))]} />
          </>
        }
      />
      <KindTabs search={search} onChange={change} />
      <DeploymentFilters search={search} onChange={change} onClear={clear} />
      {search.tab === "configs" ? (
        <ConfigDeploymentTable search={search} onClear={clear} />
      ) : (
        <DeploymentTable search={search} selected={selected} onSelect={setSelected} onClear={clear} />
      )}
    </div>
  );
}

const listCommand = ({ tab, status, robot_id, fleet_id, since, following }: DeploymentsSearch): string =>
  tab === "configs"
    ? "rf configs deployments"
    : shellLine("rf", "deployments", "list", { status, robot: robot_id, fleet: fleet_id, since, following });

interface Parts {
  search: DeploymentsSearch;
  onChange: (part: DeploymentsSearch) => void;
}

const KINDS = [
  { label: "Releases", tab: undefined },
  { label: "Configs", tab: "configs" },
] as const;

function KindTabs({ search, onChange }: Parts) {
  return (
    <div role="group" aria-label="Kind of deployment" className="mb-3 flex gap-1 border-b border-line">
      {KINDS.map(({ label, tab }) => (
        <button
          key={label}
          type="button"
          aria-pressed={tab === search.tab}
          onClick={() => onChange({ tab, release_id: undefined })}
          className={cx(
            "h-9 border-b-2 px-2.5",
            tab === search.tab ? "border-accent font-medium" : "border-transparent text-muted hover:text-ink",
          )}
        >
          {label}
        </button>
      ))}
    </div>
  );
}

function DeploymentFilters({ search, onChange, onClear }: Parts & { onClear: () => void }) {
  const { fleets } = usePlaces();
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter deployments">
      <FilterSelect label="Status" value={search.status} options={DEPLOYMENT_STATUSES} onChange={(status) => onChange({ status })} />
      <FilterSelect label="Fleet" value={search.fleet_id} options={namedOptions(fleets)} onChange={(fleet_id) => onChange({ fleet_id })} />
      {search.tab === undefined && (
        <ObjectFilter kind="release" label="Release: any" id={search.release_id} onChange={(release_id) => onChange({ release_id })} />
      )}
      <ObjectFilter kind="robot" label="Robot: any" id={search.robot_id} onChange={(robot_id) => onChange({ robot_id })} />
      {search.since !== undefined && <SinceFilter since={search.since} onRemove={() => onChange({ since: undefined })} />}
      {search.robot_id === undefined && (
        <Checkbox
          label="Include auto-updates"
          checked={search.following === true}
          onChange={(on) => onChange({ following: on || undefined })}
        />
      )}
      {hasFilters({ ...search, tab: undefined }) && (
        <Button look="quiet" onClick={onClear}>
          Clear
        </Button>
      )}
    </div>
  );
}

interface ObjectFilterProps {
  kind: "release" | "robot";
  label: string;
  id: string | undefined;
  onChange: (id: string | undefined) => void;
}

/** Filters deployments by a release or a target robot. */
const ObjectFilter = ({ kind, onChange, ...picker }: ObjectFilterProps) => (
  <div className="flex items-center max-sm:w-full">
    <ObjectPicker
      compact
      className="w-48 max-sm:w-auto max-sm:min-w-0 max-sm:flex-1"
      kind={kind}
      hints={kind === "release"}
      onChoose={onChange}
      {...picker}
    />
    {picker.id !== undefined && <IconButton label={`Clear ${kind} filter`} icon={X} onClick={() => onChange(undefined)} />}
  </div>
);

/** Shows the filter by creation time with a button that removes it. Only links can set this filter. */
const SinceFilter = ({ since, onRemove }: { since: string; onRemove: () => void }) => (
  <span className="flex h-8 items-center gap-1 rounded-md border border-line-strong pl-2.5">
    <span>
      Created since <Time at={since} exact />
    </span>
    <IconButton label="Clear time filter" icon={X} onClick={onRemove} />
  </span>
);
