import type { Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, Card, CopyText, EmptyState, PageHeader, Progress, QueryState, Section, Text, Time } from "../../ui/index.ts";
import { NewFleet } from "../fleets/index.ts";
import { SiteMenu } from "./site-menu.tsx";

const route = getRouteApi("/app/sites/$id");

/** A site and its fleets. */
export function SitePage() {
  const { id } = route.useParams();
  const site = useQuery(query("getSite", { params: { id } }));
  return <QueryState query={site}>{({ data }) => <Found key={data.id} site={data} />}</QueryState>;
}

function Found({ site }: { site: Site }) {
  const may_change = useMay("operator");
  const [is_making, setMaking] = useState(false);
  const { id, name, robot_count, online_count, created_at } = site;
  return (
    <>
      <PageHeader
        title={<Text>{name}</Text>}
        label={name}
        meta={
          <>
            <Link to="/robots" search={{ site_id: id }} className="hover:underline">
              {robot_count.toLocaleString()} {robot_count === 1 ? "robot" : "robots"}
            </Link>
            <Link to="/robots" search={{ site_id: id, status: "online" }} className="hover:underline">
              {online_count.toLocaleString()} online
            </Link>
            <span>
              created <Time at={created_at} />
            </span>
            <CopyText label="ID">{id}</CopyText>
          </>
        }
        actions={
          <>
            {may_change && (
              <Button icon={<Plus size={14} aria-hidden />} onClick={() => setMaking(true)}>
                New fleet
              </Button>
            )}
            <SiteMenu site={site} />
          </>
        }
      />
      <SiteFleets site_id={id} />
      {is_making && <NewFleet site_id={id} onClose={() => setMaking(false)} />}
    </>
  );
}

function SiteFleets({ site_id }: { site_id: string }) {
  const fleets = useQuery(query("listFleets", { query: { site_id } }));
  return (
    <Section title="Fleets">
      <QueryState query={fleets}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState title="No fleets at this site yet" />
          ) : (
            <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3">
              {items.map(({ id, name, robot_count, online_count }) => (
                <li key={id} className="min-w-0">
                  <Link to="/fleets/$id" params={{ id }} className="block">
                    <Card className="hover:bg-hover">
                      <span className="mb-2 flex items-baseline justify-between gap-3">
                        <Text line className="font-medium">
                          {name}
                        </Text>
                        <span className="shrink-0 text-xs text-muted tabular-nums">
                          {online_count.toLocaleString()} of {robot_count.toLocaleString()} online
                        </span>
                      </span>
                      <Progress
                        label={`Robots of ${name.slice(0, 80)} that are online`}
                        total={robot_count}
                        parts={[{ value: online_count, tone: "ok", label: "online" }]}
                      />
                    </Card>
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
