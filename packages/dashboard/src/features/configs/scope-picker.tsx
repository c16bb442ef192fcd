import { useQuery } from "@tanstack/react-query";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { Segments } from "../../ui/index.ts";
import { PlacePicker } from "./place-picker.tsx";
import { type Scope, SCOPES } from "./configs-search.ts";

const NAMES: Record<Scope, string> = { org: "Org", site: "Site", fleet: "Fleet", robot: "Robot" };

/** Selects the scope: the organization, a site, a fleet or a robot. */
export function ScopePicker({
  scope,
  scope_id,
  onChange,
}: {
  scope: Scope;
  scope_id: string | undefined;
  onChange: (scope: Scope, scope_id: string | undefined) => void;
}) {
  const name = useScopeName(scope, scope_id);
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2">
      <Segments
        label="Scope"
        options={SCOPES.map((value) => ({ value, label: NAMES[value] }))}
        value={scope}
        onChange={(next) => onChange(next, next === scope ? scope_id : undefined)}
      />
      {scope !== "org" && (
        <PlacePicker key={`${scope} ${scope_id ?? ""}`} kind={scope} chosen={name} onChoose={(id) => onChange(scope, id)} />
      )}
    </div>
  );
}

/** Returns the name of the scope's object; its ID until the name is loaded. */
export function useScopeName(scope: Scope, scope_id: string | undefined): string | undefined {
  const { site_names, fleet_names } = usePlaces();
  const is_robot = scope === "robot" && scope_id !== undefined;
  const robot = useQuery({ ...query("getRobot", { params: { id: scope_id ?? "" } }), enabled: is_robot }).data?.data;
  if (scope_id === undefined) return undefined;
  return { org: undefined, site: site_names.get(scope_id), fleet: fleet_names.get(scope_id), robot: robot?.name }[scope] ?? scope_id;
}
