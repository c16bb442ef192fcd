import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ObjectPicker } from "../../api/object-picker.tsx";
import { query, usePlaces } from "../../api/queries.ts";
import { LinkTabs, PageHeader, Segments } from "../../ui/index.ts";
import { type ConfigScope, type Scope, SCOPES } from "./config-values.ts";

/** The header and tabs of all config pages. */
export function ConfigsFrame({ label, actions, children }: { label: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <>
      <PageHeader title="Configs" label={label} actions={actions} />
      <LinkTabs
        label="Configs"
        tabs={[
          { label: "Values", link: { to: "/configs" } },
          { label: "Drift", link: { to: "/configs/drift", search: { state: "drifted" } } },
          { label: "Schemas", link: { to: "/configs/schemas" } },
        ]}
      />
      {children}
    </>
  );
}

const NAMES: Record<Scope, string> = { org: "Organization", site: "Site", fleet: "Fleet", robot: "Robot" };

/** Selects the scope: the organization, a site, a fleet or a robot. */
export function ScopePicker({
  scope,
  scope_id,
  onChange,
}: ConfigScope & { onChange: (scope: Scope, scope_id: string | undefined) => void }) {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2">
      <Segments
        label="Scope"
        options={SCOPES.map((value) => ({ value, label: NAMES[value] }))}
        value={scope}
        onChange={(next) => onChange(next, next === scope ? scope_id : undefined)}
      />
      {scope !== "org" && <PlacePicker kind={scope} id={scope_id} onChoose={(id) => onChange(scope, id)} />}
    </div>
  );
}

interface PlacePickerProps {
  kind: "site" | "fleet" | "robot";
  id: string | undefined;
  onChoose: (id: string) => void;
}

/** Selects a site, fleet or robot by name. */
const PlacePicker = ({ kind, ...rest }: PlacePickerProps) => (
  <ObjectPicker
    key={kind}
    kind={kind}
    compact
    label={`Select ${kind}`}
    placeholder={`Search ${kind}s…`}
    className="w-72 max-w-full"
    {...rest}
  />
);

/** Returns the name of the scope's object; its ID until the name is loaded. */
export function useScopeName(scope: Scope, scope_id: string | undefined): string | undefined {
  const { site_names, fleet_names } = usePlaces();
  const is_robot = scope === "robot" && scope_id !== undefined;
  const robot = useQuery({ ...query("getRobot", { params: { id: scope_id ?? "" } }), enabled: is_robot }).data?.data;
  if (scope_id === undefined) return undefined;
  return { org: undefined, site: site_names.get(scope_id), fleet: fleet_names.get(scope_id), robot: robot?.name }[scope] ?? scope_id;
}
