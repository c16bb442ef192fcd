import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, Rocket } from "lucide-react";
import { useState } from "react";
import { useMay } from "../../api/session.ts";
import { Button, copyAsRf, EmptyState, ErrorState, FilterSelect, Menu, SearchInput, Skeleton } from "../../ui/index.ts";
import { ConfigsFrame } from "./configs-frame.tsx";
import type { ConfigsSearch, Scope } from "./configs-search.ts";
import { DeployDialog } from "./deploy-dialog.tsx";
import { type EffectiveValue, filterValues } from "./effective.ts";
import { deployLine, viewLine } from "./rf-lines.ts";
import { RobotFiles } from "./robot-files.tsx";
import { ScopePicker } from "./scope-picker.tsx";
import { UnsetDialog } from "./unset-dialog.tsx";
import { useEffective } from "./use-effective.ts";
import { ValueDialog } from "./value-dialog.tsx";
import { ValuesTable } from "./values-table.tsx";

type Window = { kind: "edit"; of: EffectiveValue | undefined } | { kind: "unset"; of: EffectiveValue } | { kind: "deploy" } | undefined;

/** The effective values at a scope with their origins, and the actions that change them. */
export function ConfigsPage() {
  const search: ConfigsSearch = useSearch({ from: "/app/configs" });
  const navigate = useNavigate();
  const may_set = useMay("operator");
  const [shown, setShown] = useState<Window>();
  const { scope = "org", scope_id, namespace, q } = search;
  const is_chosen = scope === "org" || scope_id !== undefined;
  const effective = useEffective(scope, scope_id);
  const set = (change: Partial<Record<keyof ConfigsSearch, string | undefined>>): void => {
    const next = Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined && value !== "");
    void navigate({ to: "/configs", search: Object.fromEntries(next), replace: true });
  };
  const pick = (next: Scope, id: string | undefined): void => set({ scope: next === "org" ? undefined : next, scope_id: id });
  const place: { scope: Scope; scope_id: string | undefined } = { scope, scope_id };
  return (
    <ConfigsFrame
      label="Configs"
      actions={
        <>
          {may_set && is_chosen && (
            <Button icon={<Plus size={14} aria-hidden />} onClick={() => setShown({ kind: "edit", of: undefined })}>
              Set value
            </Button>
          )}
          {may_set && (
            <Button look="primary" icon={<Rocket size={14} aria-hidden />} onClick={() => setShown({ kind: "deploy" })}>
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
        <EmptyState title={`Select a ${scope}`}>Its effective values and their origins appear here.</EmptyState>
      ) : (
        <>
          {scope === "robot" && scope_id !== undefined && <RobotFiles robot_id={scope_id} />}
          <Filters search={search} values={effective.values ?? []} onChange={set} />
          {effective.values !== undefined ? (
            <ValuesTable
              values={filterValues(effective.values, {
                ...(namespace === undefined ? {} : { namespace }),
                ...(q === undefined ? {} : { q }),
              })}
              is_any_set={effective.values.length > 0}
              place={place}
              onEdit={(of) => setShown({ kind: "edit", of })}
              onUnset={(of) => setShown({ kind: "unset", of })}
            />
          ) : effective.error !== null ? (
            <ErrorState error={effective.error} onRetry={effective.retry} />
          ) : (
            <Skeleton rows={8} />
          )}
        </>
      )}
      {shown?.kind === "edit" && <ValueDialog place={place} of={shown.of} onClose={() => setShown(undefined)} />}
      {shown?.kind === "unset" && <UnsetDialog of={shown.of} onClose={() => setShown(undefined)} />}
      {shown?.kind === "deploy" && <DeployDialog place={place} namespace={namespace} onClose={() => setShown(undefined)} />}
    </ConfigsFrame>
  );
}

function Filters({
  search,
  values,
  onChange,
}: {
  search: ConfigsSearch;
  values: readonly EffectiveValue[];
  onChange: (change: Partial<Record<keyof ConfigsSearch, string | undefined>>) => void;
}) {
  const { namespace, q } = search;
  const namespaces = [...new Set([...values.map((value) => value.namespace), ...(namespace === undefined ? [] : [namespace])])].toSorted();
  return (
    <div role="search" className="mb-3 flex flex-wrap items-center gap-2">
      <SearchInput label="Search keys and values" value={q ?? ""} onChange={(event) => onChange({ q: event.target.value })} />
      <FilterSelect
        label="Namespace"
        value={namespace}
        options={namespaces.map((value) => ({ value, label: value }))}
        onChange={(next) => onChange({ namespace: next })}
      />
    </div>
  );
}
