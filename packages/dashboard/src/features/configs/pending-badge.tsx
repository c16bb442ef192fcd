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
const HOW = "Set but not deployed: robots receive it with the next config deployment";

/** Renders nothing if all values that apply to the fleet are deployed to it. */
export function FleetPending({ fleet }: { fleet: Fleet }) {
  const count = usePendingCount(fleet);
  return count === 0 ? null : <Pending title={HOW}>{changes(count)}</Pending>;
}

/** Renders nothing if all values that apply to the robot were sent to it. */
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
  if (is_robot && diff.some((one) => one.namespace === namespace && one.key === key)) return <Pending title={HOW}>pending</Pending>;
  if (fleets.length === 0) return null;
  const names = fleets.map(({ name }) => name).join(", ");
  return (
    <Pending title={`${HOW}. ${names}`.slice(0, 500)}>
      {scope === "fleet" ? "pending" : `pending in ${fleets.length.toLocaleString()} ${fleets.length === 1 ? "fleet" : "fleets"}`}
    </Pending>
  );
}
