import type { RobotConfigDiff } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { query } from "../../api/queries.ts";
import { Badge, ConfigState, Diff, jsonText, QueryState, TextLine } from "../../ui/index.ts";
import { robotsFilter, type Target } from "../deployments/target.ts";

/** Maximum robots of a target whose changes are shown. */
const ROBOTS_SHOWN = 20;

interface RobotsDiffProps {
  target: Target;
  namespace: string | undefined;
  /** Number of robots of the target; undefined until it is known. */
  total: number | undefined;
}

/** The pending config changes of each robot of a fleet or selection. The changes of a robot are loaded when the user expands its entry. */
export function RobotsDiff({ target, namespace, total }: RobotsDiffProps) {
  const filter = target.kind === "selection" ? robotsFilter(target.selector) : { fleet_id: target.id };
  const robots = useQuery({ ...query("listRobots", { query: { ...filter, limit: ROBOTS_SHOWN } }), enabled: filter !== undefined });
  if (filter === undefined) return <p className="text-muted">The changes of these robots are not available.</p>;
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
          {items.length === 0 && <p className="text-muted">No matching robots</p>}
          {total !== undefined && total > items.length && (
            <p className="mt-1 text-xs text-muted">
              {items.length} of {total} robots are shown. The other robots also receive their effective values.
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
export function RobotDiff({ robot_id, namespace }: { robot_id: string; namespace: string | undefined }) {
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
