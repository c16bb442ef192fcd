import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { History, LockKeyhole, Pencil, Plus, Rocket, Undo2 } from "lucide-react";
import { createContext, use, useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import type { ConfigsSearch } from "../../search.ts";
import {
  Badge,
  Button,
  combineLoaded,
  type Column,
  ConfigState,
  copyAsRf,
  DataTable,
  EmptyState,
  FilterSelect,
  type Loaded,
  Menu,
  NameLink,
  NoMatch,
  QueryState,
  SearchInput,
  TextLine,
  useFilters,
} from "../../ui/index.ts";
import {
  byName,
  type ConfigScope,
  deployLine,
  effectiveOf,
  type EffectiveValue,
  filterValues,
  historyLine,
  isOwn,
  type Scope,
  scopeName,
  setLine,
  unsetLine,
  valueLine,
  viewLine,
} from "./config-values.ts";
import { ConfigsFrame, ScopePicker, useScopeName } from "./configs-frame.tsx";
import { DeployDialog } from "./deploy-dialog.tsx";
import { UnsetDialog, ValueDialog } from "./value-dialog.tsx";

type Window = { kind: "edit"; of: EffectiveValue | undefined } | { kind: "unset"; of: EffectiveValue } | { kind: "deploy" } | undefined;

/** The effective values at a scope with their origins, and the actions that change them. */
export function ConfigsPage() {
  const { search, change } = useFilters(useSearch({ from: "/app/configs" }));
  const may_set = useMay("operator");
  const [shown, setShown] = useState<Window>();
  const { scope = "org", scope_id, namespace } = search;
  const is_chosen = scope === "org" || scope_id !== undefined;
  const effective = useEffective(scope, scope_id);
  const pick = (next: Scope, id: string | undefined): void => change({ scope: next === "org" ? undefined : next, scope_id: id });
  const place: ConfigScope = { scope, scope_id };
  return (
    <ConfigsFrame
      label="Configs"
      actions={
        <>
          {may_set && is_chosen && (
            <Button icon={Plus} busy={false} onClick={() => setShown({ kind: "edit", of: undefined })}>
              Set value
            </Button>
          )}
          {may_set && (
            <Button look="primary" icon={Rocket} busy={false} onClick={() => setShown({ kind: "deploy" })}>
              Deploy configs
            </Button>
          )}
          <Menu
            label="Actions for configs"
            entries={[copyAsRf(viewLine(place)), may_set && copyAsRf(deployLine(place, namespace), "Copy rf deploy command")]}
          />
        </>
      }
    >
      <ScopePicker scope={scope} scope_id={scope_id} onChange={pick} />
      {!is_chosen ? (
        <EmptyState title={`Select a ${scope}`}>
          The values that apply to this {scope} appear here, each with the scope at which it is set.
        </EmptyState>
      ) : (
        <>
          {scope === "robot" && scope_id !== undefined && <RobotFiles robot_id={scope_id} />}
          <ValueFilters search={search} values={effective.data ?? []} onChange={change} />
          <QueryState query={effective} rows={8}>
            {(values) => (
              <ValuesTable
                values={filterValues(values, search)}
                is_any_set={values.length > 0}
                onClear={() => change({ q: undefined, namespace: undefined })}
                place={place}
                onEdit={(of) => setShown({ kind: "edit", of })}
                onUnset={(of) => setShown({ kind: "unset", of })}
              />
            )}
          </QueryState>
        </>
      )}
      {shown?.kind === "edit" && <ValueDialog place={place} of={shown.of} onClose={() => setShown(undefined)} />}
      {shown?.kind === "unset" && <UnsetDialog of={shown.of} onClose={() => setShown(undefined)} />}
      {shown?.kind === "deploy" && <DeployDialog place={place} namespace={namespace} onClose={() => setShown(undefined)} />}
    </ConfigsFrame>
  );
}

interface ValueFiltersProps {
  search: ConfigsSearch;
  values: readonly EffectiveValue[];
  onChange: (part: ConfigsSearch) => void;
}

function ValueFilters({ search: { namespace, q }, values, onChange }: ValueFiltersProps) {
  const namespaces = [...new Set([...values.map((value) => value.namespace), ...(namespace === undefined ? [] : [namespace])])].toSorted();
  return (
    <div role="search" className="mb-3 flex flex-wrap items-center gap-2">
      <SearchInput label="Search keys and values" value={q ?? ""} onValue={(text) => onChange({ q: text || undefined })} />
      <FilterSelect
        label="Namespace"
        value={namespace}
        options={namespaces.map((value) => ({ value, label: value }))}
        onChange={(next) => onChange({ namespace: next })}
      />
    </div>
  );
}

const MEANINGS = {
  in_sync: "matches the last deployment",
  pending: "config deployment in progress",
  drifted: "changed or removed on the robot; the next config deployment restores it",
  unknown: "never deployed",
} as const;

/** The config files of a robot and whether they match the deployed ones. */
function RobotFiles({ robot_id }: { robot_id: string }) {
  const config = useQuery(query("getRobotConfig", { params: { id: robot_id } })).data?.data;
  if (config === undefined || config.namespaces.length === 0) return null;
  return (
    <ul aria-label="Files on the robot" className="mb-3 flex flex-wrap gap-2">
      {config.namespaces.map(({ namespace, state }) => (
        <li key={namespace} className="flex max-w-full items-center gap-2 rounded-md border border-line px-2.5 py-1.5">
          <TextLine className="font-mono text-xs">{`${namespace}.json`}</TextLine>
          <ConfigState state={state} />
          <span className="text-xs text-muted">{MEANINGS[state]}</span>
        </li>
      ))}
    </ul>
  );
}

/** Returns the effective values at a scope with their origins. For robots the server computes them; for wider scopes this page does. */
function useEffective(scope: Scope, scope_id: string | undefined): Loaded<EffectiveValue[]> {
  const is_robot = scope === "robot";
  const of_fleet = useQuery({
    ...query("getFleet", { params: { id: scope_id ?? "" } }),
    enabled: scope === "fleet" && scope_id !== undefined,
  });
  const site_id = scope === "site" ? scope_id : scope === "fleet" ? of_fleet.data?.data.site_id : undefined;
  const robot = useQuery({ ...query("getRobotConfig", { params: { id: scope_id ?? "" } }), enabled: is_robot && scope_id !== undefined });
  const org = useQuery({ ...query("listConfigs", { query: { scope: "org" } }), enabled: !is_robot });
  const site = useQuery({ ...query("listConfigs", { query: { scope: "site", scope_id: site_id } }), enabled: site_id !== undefined });
  const fleet = useQuery({
    ...query("listConfigs", { query: { scope: "fleet", scope_id } }),
    enabled: scope === "fleet" && scope_id !== undefined,
  });
  const wide = [org, ...(site_id === undefined ? [] : [site]), ...(scope === "fleet" ? [fleet] : [])];
  const levels = wide.map(({ data }) => data?.items);
  const is_whole = (scope !== "fleet" || of_fleet.data !== undefined) && levels.every((level) => level !== undefined);
  return combineLoaded(
    is_robot ? [robot] : scope === "fleet" ? [of_fleet, ...wide] : wide,
    is_robot ? robot.data?.data.effective.toSorted(byName) : is_whole ? effectiveOf(levels.map((level) => level ?? [])) : undefined,
  );
}

interface Acts {
  place: ConfigScope;
  onEdit: (value: EffectiveValue) => void;
  onUnset: (value: EffectiveValue) => void;
}
/** The actions of the rows. Passed by context, so that the columns stay constant. */
const ActsContext = createContext<Acts | undefined>(undefined);

const keyOf = ({ namespace, key }: EffectiveValue): string => JSON.stringify([namespace, key]);

const COLUMNS: readonly Column<EffectiveValue>[] = [
  {
    name: "Key",
    width: "minmax(6rem, 2fr)",
    cell: ({ key, config_id }) => <NameLink to="/configs/$id" params={{ id: config_id }} name={key} className="font-medium" />,
  },
  { name: "Namespace", width: "minmax(5rem, 1fr)", priority: 2, cell: ({ namespace }) => <TextLine>{namespace}</TextLine> },
  { name: "Value", width: "minmax(5rem, 3fr)", cell: (value) => <ValueCell value={value} /> },
  { name: "Scope", width: "minmax(4.5rem, 1.5fr)", cell: (value) => <Origin value={value} /> },
  { name: "Version", width: "4.5rem", priority: 3, align: "right", cell: ({ version }) => version },
  { name: "", width: "2rem", cell: (value) => <RowMenu value={value} /> },
];

function ValueCell({ value }: { value: EffectiveValue }) {
  if (value.secret)
    return (
      <Badge icon={LockKeyhole} tone="info">
        secret
      </Badge>
    );
  return <TextLine className="font-mono text-xs">{valueLine(value)}</TextLine>;
}

function Origin({ value }: { value: EffectiveValue }) {
  const acts = use(ActsContext);
  const name = useScopeName(value.scope, value.scope_id ?? undefined);
  if (acts !== undefined && isOwn(value, acts.place)) return <Badge tone="ok">set here</Badge>;
  return (
    <span className="flex min-w-0 items-center gap-1.5">
      <Badge>{scopeName(value.scope)}</Badge>
      {name !== undefined && (
        <span className="min-w-0 max-sm:hidden">
          <TextLine>{name}</TextLine>
        </span>
      )}
    </span>
  );
}

function RowMenu({ value }: { value: EffectiveValue }) {
  const acts = use(ActsContext);
  const navigate = useNavigate();
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  if (acts === undefined) return null;
  const is_own = isOwn(value, acts.place);
  return (
    <Menu
      label={`Actions for ${value.key.slice(0, 80)}`}
      entries={[
        may_set &&
          (!value.secret || is_admin) && {
            label: is_own ? "Change…" : "Override…",
            icon: Pencil,
            sends: true,
            onSelect: () => acts.onEdit(value),
          },
        {
          label: "History",
          icon: History,
          onSelect: () => void navigate({ to: "/configs/$id", params: { id: value.config_id } }),
        },
        copyAsRf(historyLine(value), "Copy rf history command"),
        is_own && is_admin && copyAsRf(unsetLine(value), "Copy rf unset command"),
        is_own && is_admin && { label: "Unset…", icon: Undo2, danger: true, sends: true, onSelect: () => acts.onUnset(value) },
      ]}
    />
  );
}

interface ValuesTableProps extends Acts {
  values: readonly EffectiveValue[];
  is_any_set: boolean;
  onClear: () => void;
}

function ValuesTable({ values, is_any_set, onClear, place, onEdit, onUnset }: ValuesTableProps) {
  const navigate = useNavigate();
  const may_set = useMay("operator");
  const is_admin = useMay("admin");
  return (
    <ActsContext value={{ place, onEdit, onUnset }}>
      <DataTable
        label="Effective values"
        columns={COLUMNS}
        rows={values}
        rowKey={keyOf}
        onOpen={(value) => {
          if (may_set && (!value.secret || is_admin)) onEdit(value);
          else void navigate({ to: "/configs/$id", params: { id: value.config_id } });
        }}
        empty={
          is_any_set ? (
            <NoMatch title="No matching values" onClear={onClear} />
          ) : (
            <EmptyState title="No values yet" command={setLine({ ...place, namespace: "default", key: "speed_limit" }, "1.5", false)}>
              A value set for the organization applies to all robots, unless a site, a fleet or a robot overrides it.
            </EmptyState>
          )
        }
      />
    </ActsContext>
  );
}
