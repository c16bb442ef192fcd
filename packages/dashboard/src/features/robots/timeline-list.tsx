import type { TimelineEntry } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { Card, cx, Text, Time } from "../../ui/index.ts";

/** Timeline entries, newest first, with their actors. */
export function TimelineList({ entries, exact = false }: { entries: readonly TimelineEntry[]; exact?: boolean }) {
  return (
    <Card className="!p-0">
      <ol className="divide-y divide-line">
        {entries.map((entry) => (
          <li key={entry.id} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2 sm:flex-nowrap">
            <span className={cx("shrink-0 text-xs text-muted", exact ? "sm:w-44" : "sm:w-20")}>
              <Time at={entry.at} exact={exact} />
            </span>
            <span className="ml-auto min-w-0 shrink-0 text-xs text-muted max-sm:max-w-[50%] sm:order-last sm:max-w-40">
              <Text line>{actorText(entry.actor)}</Text>
            </span>
            <span className="min-w-0 flex-1 max-sm:w-full max-sm:flex-none">
              <Text>{entry.summary}</Text> <Where entry={entry} />
            </span>
          </li>
        ))}
      </ol>
    </Card>
  );
}

const actorText = ({ type, name }: TimelineEntry["actor"]): string =>
  name ?? { user: "a user", org_token: "a token", robot: "the robot", system: "the service", admin: "the service's admin" }[type];

/** A link to the object of an entry. */
function Where({ entry: { kind, data } }: { entry: TimelineEntry }) {
  const { deployment_id, session_id } = data;
  const className = "ml-1 whitespace-nowrap text-xs text-accent underline";
  if (typeof deployment_id === "string")
    return kind.startsWith("config.") ? (
      <Link to="/config-deployments/$id" params={{ id: deployment_id }} className={className}>
        deployment
      </Link>
    ) : (
      <Link to="/deployments/$id" params={{ id: deployment_id }} className={className}>
        deployment
      </Link>
    );
  // Connections have a session ID too, but no page.
  if (typeof session_id === "string" && kind.startsWith("shell."))
    return (
      <Link to="/shells/$id" params={{ id: session_id }} className={className}>
        session
      </Link>
    );
  return null;
}
