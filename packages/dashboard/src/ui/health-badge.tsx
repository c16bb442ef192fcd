import { CircleDashed } from "lucide-react";
import { Badge, StatusBadge } from "./status.tsx";

/** The health of a robot. Health reported before the robot went offline is labeled "was …" and has no status color. */
export function HealthBadge({
  robot: { status, health, failing },
}: {
  robot: { status: string; health: string; failing: readonly string[] };
}) {
  const text = failing.join(", ").slice(0, 500);
  if (status === "online" || health === "unknown")
    return (
      <span title={text} className="inline-flex max-w-full">
        <StatusBadge status={health} />
      </span>
    );
  return (
    <span title={`Last reported before the robot went offline${text === "" ? "" : `: ${text}`}`} className="inline-flex max-w-full">
      <Badge icon={<CircleDashed size={12} aria-hidden />}>was {health}</Badge>
    </span>
  );
}
