import type { RobotConfigDiff } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { Badge, Diff, jsonText, QueryState } from "../../ui/index.ts";

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
