import { Plus, X } from "lucide-react";
import { useState } from "react";
import { usePlaces } from "../../api/queries.ts";
import { Button, IconButton, Select, TextLine } from "../../ui/index.ts";
import { freeRoles, type Grant, ROLE_WORDS, ROLES, type Scopes, scopeWords } from "./grants.ts";

/** Selects a role and its scope. */
export function GrantFields({
  grant,
  onChange,
  roles = ROLES,
}: {
  grant: Grant;
  onChange: (grant: Grant) => void;
  /** The selectable roles. */
  roles?: readonly Grant["role"][];
}) {
  return (
    <>
      <Select
        label="Role"
        value={grant.role}
        options={ROLES.filter((value) => roles.includes(value)).map((value) => ({ value, label: value }))}
        hint={`${grant.role}: ${ROLE_WORDS[grant.role]}.`}
        onValue={(role) => onChange({ ...grant, role: role as Grant["role"] })}
      />
      <ScopeFields scopes={grant.scopes} onChange={(scopes) => onChange({ ...grant, scopes })} />
    </>
  );
}

/** The sites and fleets that a role is limited to. Empty: the whole organization. */
function ScopeFields({ scopes, onChange }: { scopes: Scopes; onChange: (scopes: Scopes) => void }) {
  const { sites, fleets, site_names, fleet_names } = usePlaces();
  const [is_limited, setLimited] = useState(scopes.length > 0);
  const chosen = new Set(scopes.map(({ site_id, fleet_id }) => fleet_id ?? site_id));
  const options = [
    { value: "", label: "Add a site or a fleet…" },
    ...sites.filter(({ id }) => !chosen.has(id)).map(({ id, name }) => ({ value: `site ${id}`, label: `Site ${name}` })),
    ...fleets
      .filter(({ id }) => !chosen.has(id))
      .map(({ id, name, site_id }) => ({ value: `fleet ${id}`, label: `Fleet ${name} (${site_names.get(site_id) ?? "…"})` })),
  ];
  const add = (value: string): void => {
    const [kind, id] = value.split(" ");
    if (id !== undefined) onChange([...scopes, kind === "site" ? { site_id: id } : { fleet_id: id }]);
  };
  return (
    <>
      <Select
        label="Access"
        value={is_limited ? "some" : "all"}
        options={[
          { value: "all", label: "whole organization" },
          { value: "some", label: "selected sites or fleets" },
        ]}
        onValue={(access) => {
          setLimited(access === "some");
          if (access === "all") onChange([]);
        }}
      />
      {is_limited && (
        <div className="mb-3 border-l-2 border-line pl-3">
          <ul className="mb-2 flex flex-wrap gap-1.5">
            {scopes.map((scope) => {
              const words = scopeWords([scope], site_names, fleet_names);
              return (
                <li key={scope.fleet_id ?? scope.site_id} className="flex max-w-full items-center rounded-md bg-active pl-2">
                  <TextLine>{words}</TextLine>
                  <IconButton
                    label={`Remove ${words.slice(0, 80)}`}
                    icon={X}
                    size={12}
                    className="!h-6 !w-6"
                    onClick={() => onChange(scopes.filter((one) => one !== scope))}
                  />
                </li>
              );
            })}
          </ul>
          <Select
            label="Limit to"
            value=""
            options={options}
            error={
              scopes.length === 0
                ? "Select at least one site or fleet. Without a selection, the role applies to the whole organization."
                : undefined
            }
            onValue={add}
          />
        </div>
      )}
    </>
  );
}

/** All roles of a user, each at most once, with their scopes. */
export function GrantsFields({ grants, onChange }: { grants: readonly Grant[]; onChange: (grants: Grant[]) => void }) {
  const free = freeRoles(grants);
  const replace = (index: number, grant: Grant): void => onChange(grants.map((one, at) => (at === index ? grant : one)));
  return (
    <>
      {grants.map((grant, index) => (
        <fieldset key={index} className={grants.length > 1 ? "mb-3 rounded-md border border-line p-3" : ""}>
          {grants.length > 1 && (
            <legend className="flex items-center gap-2 px-1 font-medium">
              {`Role ${index + 1}`}
              <Button look="quiet" onClick={() => onChange(grants.filter((_, at) => at !== index))}>
                Remove
              </Button>
            </legend>
          )}
          <GrantFields grant={grant} roles={[grant.role, ...free]} onChange={(changed) => replace(index, changed)} />
        </fieldset>
      ))}
      {free.length > 0 && (
        <Button look="quiet" className="mb-3" icon={Plus} onClick={() => onChange([...grants, { role: free[0]!, scopes: [] }])}>
          Add another role
        </Button>
      )}
    </>
  );
}
