import type { ConfigDeployment, ConfigEntry, Fleet } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Clock } from "lucide-react";
import { query, usePlaces } from "../../api/queries.ts";
import { Badge, combineLoaded, counted, hasFailed, type Loaded } from "../../ui/index.ts";
import { pendingFleets } from "./config-values.ts";

function Pending({ children, title }: { children: string; title: string }) {
  return (
    <span title={title} className="inline-flex max-w-full">
      <Badge tone="warn" icon={Clock}>
        {children}
      </Badge>
    </span>
  );
}

const changes = (count: number): string => `${counted(count, "config change")} not deployed`;
const HOW = "Robots receive the change with the next config deployment";

/** Shown if it is not known what is deployed. Without it, everything would seem to be deployed. */
const NOT_LOADED = <Badge icon={Clock}>config state not loaded</Badge>;

/** Shows the number of config changes that are not deployed to a fleet yet; nothing if there are none. */
export function FleetPending({ fleet }: { fleet: Fleet }) {
  const known = useDeployments();
  const scopes = [{ scope: "org" }, { scope: "site", scope_id: fleet.site_id }, { scope: "fleet", scope_id: fleet.id }] as const;
  const entries = useQueries({
    queries: scopes.flatMap((scope) => [
      query("listConfigs", { query: scope }),
      query("listConfigs", { query: { ...scope, removed: true } }),
    ]),
  });
  if ([known, ...entries].some(hasFailed)) return NOT_LOADED;
  const { data } = known;
  if (data === undefined) return null;
  const pending = entries
    .flatMap((read) => read.data?.items ?? [])
    .filter((entry) => pendingFleets(entry, [fleet], data.deployments, data.complete_since_ms).length > 0);
  return pending.length === 0 ? null : <Pending title={HOW}>{changes(pending.length)}</Pending>;
}

/** Shows the number of config changes that are not deployed to a robot yet; nothing if there are none. */
export function RobotPending({ robot_id }: { robot_id: string }) {
  const diff = useQuery(query("diffRobotConfig", { params: { id: robot_id } }));
  if (hasFailed(diff)) return NOT_LOADED;
  const count = diff.data?.data.changes.length ?? 0;
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Lists the fleets to which a value was not deployed since its last change. Renders nothing if there are none. */
export function ValuePending({ entry }: { entry: ConfigEntry }) {
  const { scope, scope_id, namespace, key } = entry;
  const is_robot = scope === "robot" && scope_id !== null;
  const { fleets, has_failed } = usePlaces();
  const known = useDeployments();
  const diff = useQuery({ ...query("diffRobotConfig", { params: { id: scope_id ?? "" } }), enabled: is_robot });
  if (has_failed || hasFailed(known) || hasFailed(diff)) return NOT_LOADED;
  if (is_robot && diff.data?.data.changes.some((one) => one.namespace === namespace && one.key === key) === true)
    return <Pending title={HOW}>not deployed</Pending>;
  const pending = known.data === undefined ? [] : pendingFleets(entry, fleets, known.data.deployments, known.data.complete_since_ms);
  if (pending.length === 0) return null;
  const names = pending.map(({ name }) => name).join(", ");
  return (
    <Pending title={`${HOW}. Fleets: ${names}`.slice(0, 500)}>
      {scope === "fleet" ? "not deployed" : `not deployed to ${counted(pending.length, "fleet")}`}
    </Pending>
  );
}

const DEPLOYMENTS_MAX = 500;

/** Loads the config deployments of the organization, newest first, and the time from which the list is complete. */
function useDeployments(): Loaded<{ deployments: readonly ConfigDeployment[]; complete_since_ms: number }> {
  const read = useQuery(query("listConfigDeployments", { query: { cause: "request", limit: DEPLOYMENTS_MAX } }));
  const { data } = read;
  const oldest = data?.items.at(-1);
  const known = data && {
    deployments: data.items,
    complete_since_ms: data.next_cursor === null || oldest === undefined ? 0 : Date.parse(oldest.created_at),
  };
  return combineLoaded([read], known);
}
