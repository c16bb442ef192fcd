import type { ConfigEntry, Fleet } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Clock } from "lucide-react";
import { query } from "../../api/queries.ts";
import { Badge } from "../../ui/index.ts";
import { usePendingCount, usePendingFleets } from "./use-pending.ts";

const ICON = <Clock size={12} aria-hidden />;

function Pending({ children, title }: { children: string; title: string }) {
  return (
    <span title={title} className="inline-flex max-w-full">
      <Badge tone="warn" icon={ICON}>
        {children}
      </Badge>
    </span>
  );
}

const changes = (count: number): string => `${count.toLocaleString()} config ${count === 1 ? "change" : "changes"} pending`;
const HOW = "Set, and not deployed yet: robots get it with the next config deployment";

/** Nothing when every value that applies to the fleet has been deployed to it. */
export function FleetPending({ fleet }: { fleet: Fleet }) {
  const count = usePendingCount(fleet);
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Nothing when the robot has been sent every value that applies to it. */
export function RobotPending({ robot_id }: { robot_id: string }) {
  const count = useQuery(query("diffRobotConfig", { params: { id: robot_id } })).data?.data.changes.length ?? 0;
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Where a value has not been deployed since it changed; nothing when it has been everywhere. */
export function ValuePending({ entry }: { entry: ConfigEntry }) {
  const fleets = usePendingFleets(entry);
  const { scope, scope_id, namespace, key } = entry;
  const is_robot = scope === "robot" && scope_id !== null;
  const diff = useQuery({ ...query("diffRobotConfig", { params: { id: scope_id ?? "" } }), enabled: is_robot }).data?.data.changes ?? [];
  if (is_robot && diff.some((one) => one.namespace === namespace && one.key === key)) return <Pending title={HOW}>pending</Pending>;
  if (fleets.length === 0) return null;
  const names = fleets.map(({ name }) => name).join(", ");
  return (
    <Pending title={`${HOW}. ${names}`.slice(0, 500)}>
      {scope === "fleet" ? "pending" : `pending in ${fleets.length.toLocaleString()} ${fleets.length === 1 ? "fleet" : "fleets"}`}
    </Pending>
  );
}
