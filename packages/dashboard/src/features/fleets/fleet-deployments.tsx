import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { Card, LinkButton, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";

const RECENT = 8;

/** The latest deployments to the fleet. */
export function FleetDeployments({ fleet_id }: { fleet_id: string }) {
  const list = useQuery(query("listDeployments", { query: { fleet_id, limit: RECENT } }));
  return (
    <Section
      title="Deployments"
      actions={
        <LinkButton look="quiet" to="/deployments" search={{ fleet_id }}>
          View all
        </LinkButton>
      }
    >
      <QueryState query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="text-muted">No deployments yet</p>
          ) : (
            <Card className="!p-0">
              <ul className="divide-y divide-line">
                {items.map(({ id, release, status, created_at }) => (
                  <li key={id}>
                    <Link to="/deployments/$id" params={{ id }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                      <Text line className="flex-1 font-medium">
                        {release.tag}
                      </Text>
                      <StatusBadge status={status} />
                      <span className="w-20 shrink-0 text-right text-xs text-muted">
                        <Time at={created_at} />
                      </span>
                    </Link>
                  </li>
                ))}
              </ul>
            </Card>
          )
        }
      </QueryState>
    </Section>
  );
}
