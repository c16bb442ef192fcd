import { Link } from "@tanstack/react-router";
import type { Fleet } from "@roamfleet/protocol/routes";
import { Text } from "../../ui/index.ts";

/** The current release of each app of a fleet, on one line. */
export function DesiredTags({ desired }: { desired: Fleet["desired"] }) {
  const apps = Object.entries(desired);
  if (apps.length === 0) return <span className="text-muted">no release</span>;
  return (
    <span className="flex min-w-0 gap-2">
      {apps.map(([app, { id, tag }]) => (
        <Link key={app} to="/releases/$id" params={{ id }} className="min-w-0 hover:underline">
          <Text line>{tag}</Text>
        </Link>
      ))}
    </span>
  );
}
