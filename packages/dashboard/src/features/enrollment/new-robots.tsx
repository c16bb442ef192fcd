import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { Card, LinkButton, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";

const SHOWN = 50;

/** The robots that joined the fleet since the key was created, updated live. */
export function NewRobots({ made }: { made: NewEnrollmentKey }) {
  const { fleet_id, created_at } = made;
  const key = useQuery(query("getEnrollmentKey", { params: { id: made.id } })).data?.data ?? made;
  const robots = useQuery(query("listRobots", { query: { fleet_id, limit: SHOWN } }));
  return (
    <Section title="Enrolled robots" actions={<Uses uses={key.uses} max_uses={key.max_uses} />}>
      <QueryState query={robots} rows={2}>
        {({ items }) => {
          const joined = items.filter((robot) => Date.parse(robot.created_at) >= Date.parse(created_at));
          return joined.length === 0 ? (
            <Card>
              <p role="status" className="flex items-center gap-3 text-muted">
                <span aria-hidden className="size-2.5 animate-pulse rounded-full bg-info" />
                Waiting for robots… Each appears here as soon as it enrolls.
              </p>
            </Card>
          ) : (
            <>
              <Card className="!p-0">
                <ul className="divide-y divide-line" aria-live="polite" aria-label="Enrolled robots">
                  {joined.map(({ id, name, status, created_at: joined_at }) => (
                    <li key={id}>
                      <Link to="/robots/$id" params={{ id }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                        <Text line className="flex-1 font-medium">
                          {name}
                        </Text>
                        <StatusBadge status={status} />
                        <span className="w-20 text-right text-xs text-muted">
                          <Time at={joined_at} />
                        </span>
                      </Link>
                    </li>
                  ))}
                </ul>
              </Card>
              <div className="mt-3 flex gap-2">
                <LinkButton to="/fleets/$id" params={{ id: fleet_id }}>
                  Go to fleet
                </LinkButton>
                <LinkButton to="/robots" search={{ fleet_id }}>
                  Show all robots
                </LinkButton>
              </div>
            </>
          );
        }}
      </QueryState>
    </Section>
  );
}

const Uses = ({ uses, max_uses }: { uses: number; max_uses: number }) => (
  <span className="text-muted tabular-nums">
    {uses.toLocaleString()} of {max_uses === 0 ? "any number" : max_uses.toLocaleString()} used
  </span>
);
