import type { Release } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { usePlaces } from "../../api/places.ts";
import { LinkButton, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";

const LATEST = 10;

/** The latest deployments of a release. */
export function ReleaseDeployments({ release: { id } }: { release: Release }) {
  const { fleet_names } = usePlaces();
  const deployments = useQuery(query("listDeployments", { query: { release_id: id, limit: LATEST, cause: "request" } }));
  return (
    <Section
      title="Deployments"
      actions={
        <LinkButton look="quiet" to="/deployments" search={{ release_id: id }}>
          View all
        </LinkButton>
      }
    >
      <QueryState query={deployments} rows={3}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="text-muted">No deployments yet</p>
          ) : (
            <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
              {items.map(({ id: deployment, status, fleet_id, counts, created_at, scheduled_at }) => (
                <li key={deployment}>
                  <Link to="/deployments/$id" params={{ id: deployment }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                    <StatusBadge status={status} />
                    <Text line className="flex-1">
                      {fleet_id === null ? "to one robot" : `to fleet ${fleet_names.get(fleet_id) ?? fleet_id}`}
                    </Text>
                    <span className="shrink-0 text-xs text-muted tabular-nums">
                      {status === "scheduled" ? (
                        <>
                          starts <Time at={scheduled_at} />
                        </>
                      ) : (
                        <>
                          {counts.applied} of {counts.total} applied · <Time at={created_at} />
                        </>
                      )}
                    </span>
                  </Link>
                </li>
              ))}
            </ul>
          )
        }
      </QueryState>
    </Section>
  );
}
