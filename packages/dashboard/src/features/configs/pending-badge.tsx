import type { ConfigEntry, Fleet } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Clock } from "lucide-react";
import { query, usePlaces } from "../../api/queries.ts";
import { Badge, counted } from "../../ui/index.ts";
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

/** Shows the number of config changes that are not deployed to a fleet yet; nothing if there are none. */
export function FleetPending({ fleet }: { fleet: Fleet }) {
  const count = usePendingCount(fleet);
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Shows the number of config changes that are not deployed to a robot yet; nothing if there are none. */
export function RobotPending({ robot_id }: { robot_id: string }) {
  const count = useQuery(query("diffRobotConfig", { params: { id: robot_id } })).data?.data.changes.length ?? 0;
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Lists the fleets to which a value was not deployed since its last change. Renders nothing if there are none. */
export function ValuePending({ entry }: { entry: ConfigEntry }) {
  const fleets = usePendingFleets(entry);
  const { scope, scope_id, namespace, key } = entry;
  const is_robot = scope === "robot" && scope_id !== null;
  const diff = useQuery({ ...query("diffRobotConfig", { params: { id: scope_id ?? "" } }), enabled: is_robot }).data?.data.changes ?? [];
  if (is_robot && diff.some((one) => one.namespace === namespace && one.key === key)) return <Pending title={HOW}>not deployed</Pending>;
  if (fleets.length === 0) return null;
  const names = fleets.map(({ name }) => name).join(", ");
  return (
    <Pending title={`${HOW}. Fleets: ${names}`.slice(0, 500)}>
      {scope === "fleet" ? "not deployed" : `not deployed to ${counted(fleets.length, "fleet")}`}
    </Pending>
  );
}

const DEPLOYMENTS_MAX = 500;

/** Config deployments of the organization, newest first, and the time from which the list is complete; undefined until loaded. */
function useDeployments() {
  const read = useQuery(query("listConfigDeployments", { query: { cause: "request", limit: DEPLOYMENTS_MAX } })).data;
  if (read === undefined) return undefined;
  const oldest = read.items.at(-1);
  const complete_since_ms = read.next_cursor === null || oldest === undefined ? 0 : Date.parse(oldest.created_at);
  return { deployments: read.items, complete_since_ms };
}

/** Fleets to which the current value of an entry was not deployed. */
function usePendingFleets(entry: ConfigEntry): readonly Fleet[] {
  const { fleets } = usePlaces();
  const known = useDeployments();
  return known === undefined ? [] : pendingFleets(entry, fleets, known.deployments, known.complete_since_ms);
}

/** Number of values that changed since they were deployed to the fleet. */
function usePendingCount(fleet: Fleet): number {
  const known = useDeployments();
  const scopes = [{ scope: "org" }, { scope: "site", scope_id: fleet.site_id }, { scope: "fleet", scope_id: fleet.id }] as const;
  const entries = useQueries({
    queries: scopes.flatMap((scope) => [
      query("listConfigs", { query: scope }),
      query("listConfigs", { query: { ...scope, removed: true } }),
    ]),
  }).flatMap(({ data }) => data?.items ?? []);
  if (known === undefined) return 0;
  return entries.filter((entry) => pendingFleets(entry, [fleet], known.deployments, known.complete_since_ms).length > 0).length;
}
