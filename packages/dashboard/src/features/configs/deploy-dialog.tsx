import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { query, useAction } from "../../api/queries.ts";
import { randomId } from "../../api/random-id.ts";
import { FormDialog, QueryState, Section, Select, StatusBadge, Text } from "../../ui/index.ts";
import type { Scope } from "./configs-search.ts";
import { PlacePicker } from "./place-picker.tsx";
import { deployLine } from "./rf-lines.ts";
import { RobotDiff } from "./robot-diff.tsx";
import { useScopeName } from "./scope-picker.tsx";

/** Maximum robots of a fleet whose changes are shown. */
const ROBOTS_SHOWN = 20;

interface Target {
  scope: "fleet" | "robot";
  scope_id: string | undefined;
}

/** Deploys configs to a robot or a fleet after showing the changes. Render it only while it is open. */
export function DeployDialog({
  place,
  namespace,
  onClose,
}: {
  place: { scope: Scope; scope_id: string | undefined };
  namespace: string | undefined;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const is_target = place.scope === "fleet" || place.scope === "robot";
  const [target, setTarget] = useState<Target>({
    scope: place.scope === "robot" ? "robot" : "fleet",
    scope_id: is_target ? place.scope_id : undefined,
  });
  const [only, setOnly] = useState(namespace);
  const { scope, scope_id } = target;
  const name = useScopeName(scope, scope_id);
  const action = useAction("createConfigDeployment", {
    quiet: true,
    onSuccess: ({ data: { id } }) => {
      onClose();
      void navigate({ to: "/config-deployments/$id", params: { id } });
    },
  });
  return (
    <FormDialog
      onClose={onClose}
      wide
      title="Deploy configs"
      description="Each robot receives the values that are effective for it when it is updated. Later changes are excluded."
      verb={scope === "robot" ? "Deploy to this robot" : "Deploy to this fleet"}
      sending={action}
      locked={scope_id === undefined}
      command={deployLine(target, only)}
      onSubmit={() => {
        if (scope_id === undefined) return;
        const of = scope === "robot" ? { robot_id: scope_id } : { fleet_id: scope_id };
        action.mutate({ body: { ...of, ...(only === undefined ? {} : { namespace: only }) }, idempotency_key: randomId() });
      }}
    >
      <div className="mb-3 grid items-end gap-x-4 sm:grid-cols-2">
        <Select
          label="Target"
          value={scope}
          options={[
            { value: "fleet", label: "A fleet: all robots in it" },
            { value: "robot", label: "One robot" },
          ]}
          onChange={(event) => setTarget({ scope: event.target.value === "robot" ? "robot" : "fleet", scope_id: undefined })}
        />
        <div className="mb-3">
          <PlacePicker
            key={`${scope} ${scope_id ?? ""}`}
            kind={scope}
            chosen={name}
            onChoose={(id) => setTarget({ scope, scope_id: id })}
          />
        </div>
        <NamespaceChoice value={only} onChange={setOnly} />
      </div>
      {scope_id !== undefined && (
        <Section title="Changes">
          {scope === "robot" ? <RobotDiff robot_id={scope_id} namespace={only} /> : <FleetDiff fleet_id={scope_id} namespace={only} />}
        </Section>
      )}
    </FormDialog>
  );
}

const ALL = "";

function NamespaceChoice({ value, onChange }: { value: string | undefined; onChange: (namespace: string | undefined) => void }) {
  const set = useQuery(query("listConfigs", { query: { limit: 1_000 } })).data?.items ?? [];
  const names = [...new Set([...set.map(({ namespace }) => namespace), ...(value === undefined ? [] : [value])])].toSorted();
  return (
    <Select
      label="Namespaces"
      value={value ?? ALL}
      options={[{ value: ALL, label: "All namespaces" }, ...names.map((name) => ({ value: name, label: `Only ${name}` }))]}
      onChange={(event) => onChange(event.target.value === ALL ? undefined : event.target.value)}
    />
  );
}

/** The changes of a fleet by robot; each is loaded when it is opened. */
function FleetDiff({ fleet_id, namespace }: { fleet_id: string; namespace: string | undefined }) {
  const count = usePlaces().fleets.find(({ id }) => id === fleet_id)?.robot_count;
  const robots = useQuery(query("listRobots", { query: { fleet_id, limit: ROBOTS_SHOWN } }));
  return (
    <QueryState query={robots} rows={3}>
      {({ items }) => (
        <>
          <ul className="divide-y divide-line rounded-md border border-line">
            {items.map(({ id, name, config_state }, at) => (
              <li key={id}>
                <RobotChanges id={id} name={name} config_state={config_state} namespace={namespace} is_first={at === 0} />
              </li>
            ))}
          </ul>
          {items.length === 0 && <p className="text-muted">This fleet has no robots.</p>}
          {count !== undefined && count > items.length && (
            <p className="mt-1 text-xs text-muted">
              {items.length} of {count} robots shown. The others receive their effective values, too.
            </p>
          )}
        </>
      )}
    </QueryState>
  );
}

function RobotChanges(props: { id: string; name: string; config_state: string; namespace: string | undefined; is_first: boolean }) {
  const [is_open, setOpen] = useState(props.is_first);
  return (
    <details open={is_open} onToggle={(event) => setOpen(event.currentTarget.open)} className="group px-3 py-2">
      <summary className="flex min-h-6 items-center gap-2">
        <ChevronRight size={14} aria-hidden className="shrink-0 text-muted transition-transform group-open:rotate-90" />
        <Text line className="flex-1">
          {props.name}
        </Text>
        <StatusBadge status={props.config_state} />
      </summary>
      {is_open && (
        <div className="mt-2">
          <RobotDiff robot_id={props.id} namespace={props.namespace} />
        </div>
      )}
    </details>
  );
}
