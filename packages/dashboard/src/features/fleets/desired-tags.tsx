import { Link } from "@tanstack/react-router";
import type { Fleet } from "@roamfleet/protocol/routes";
import { Text } from "../../ui/index.ts";

/** The release of each app that a fleet has, on one line. */
export function DesiredTags({ desired }: { desired: Fleet["desired"] }) {
  const apps = Object.entries(desired);
  if (apps.length === 0) return <span className="text-muted">nothing yet</span>;
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
