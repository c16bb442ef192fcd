import type { RobotConfigDiff } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { randomId } from "../../api/client.ts";
import { query, useAction, usePlaces } from "../../api/queries.ts";
import { Badge, ConfigState, Diff, FormDialog, jsonText, QueryState, Section, Select, TextLine } from "../../ui/index.ts";
import { type ConfigScope, deployLine } from "./config-values.ts";
import { PlacePicker } from "./configs-frame.tsx";

/** Maximum robots of a fleet whose changes are shown. */
const ROBOTS_SHOWN = 20;

interface Target {
  scope: "fleet" | "robot";
  scope_id: string | undefined;
}

/** Deploys configs to a robot or a fleet after showing the changes. Render it only while it is open. */
export function DeployDialog({ place, namespace, onClose }: { place: ConfigScope; namespace: string | undefined; onClose: () => void }) {
  const navigate = useNavigate();
  const is_target = place.scope === "fleet" || place.scope === "robot";
  const [target, setTarget] = useState<Target>({
    scope: place.scope === "robot" ? "robot" : "fleet",
    scope_id: is_target ? place.scope_id : undefined,
  });
  const [only, setOnly] = useState(namespace);
  const { scope, scope_id } = target;
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
      description="Each robot receives the values that are effective for it at the time of its update. Later changes are excluded."
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
            { value: "fleet", label: "All robots of a fleet" },
            { value: "robot", label: "One robot" },
          ]}
          onValue={(kind) => setTarget({ scope: kind === "robot" ? "robot" : "fleet", scope_id: undefined })}
        />
        <div className="mb-3">
          <PlacePicker kind={scope} id={scope_id} onChoose={(id) => setTarget({ scope, scope_id: id })} />
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
      onValue={(name) => onChange(name === ALL ? undefined : name)}
    />
  );
}

/** The pending config changes of each robot of a fleet. The changes of a robot are loaded when the user expands its entry. */
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
              {items.length} of {count} robots are shown. The other robots also receive their effective values.
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
        <TextLine className="flex-1">{props.name}</TextLine>
        <ConfigState state={props.config_state} />
      </summary>
      {is_open && (
        <div className="mt-2">
          <RobotDiff robot_id={props.id} namespace={props.namespace} />
        </div>
      )}
    </details>
  );
}

type Change = RobotConfigDiff["changes"][number];

/** Shows what the next config deployment would change in a robot's files. */
function RobotDiff({ robot_id, namespace }: { robot_id: string; namespace: string | undefined }) {
  const diff = useQuery(query("diffRobotConfig", { params: { id: robot_id }, query: { namespace } }));
  return (
    <QueryState query={diff} rows={3}>
      {({ data: { changes } }) =>
        changes.length === 0 ? (
          <p className="text-muted">All values are deployed. A deployment would only restore files that were changed on the robot.</p>
        ) : (
          <ul className="space-y-3">
            {changes.map((change) => (
              <li key={JSON.stringify([change.namespace, change.key])}>
                <ChangeShown change={change} />
              </li>
            ))}
          </ul>
        )
      }
    </QueryState>
  );
}

const TONES = { added: "ok", removed: "bad", changed: "info" } as const;

function ChangeShown({ change: { namespace, key, change, deployed, effective, secret } }: { change: Change }) {
  const name = `${namespace}/${key}`;
  return (
    <>
      <p className="mb-1 flex items-center gap-2">
        <bdi className="min-w-0 truncate font-mono text-xs">{name}</bdi>
        <Badge tone={TONES[change]}>{change}</Badge>
        {secret && <span className="text-xs text-muted">secret: changes are not shown</span>}
      </p>
      {!secret && (
        <Diff
          label={`Changes of ${name.slice(0, 80)}`}
          before={change === "added" ? "" : jsonText(deployed)}
          after={change === "removed" ? "" : jsonText(effective)}
        />
      )}
    </>
  );
}
