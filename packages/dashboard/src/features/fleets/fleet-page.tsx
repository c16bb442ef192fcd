import type { Fleet } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Rocket, ScrollText } from "lucide-react";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button, Card, CopyText, KeyValue, LinkButton, PageHeader, QueryState, Section, Text, Time } from "../../ui/index.ts";
import { FleetPending } from "../configs/index.ts";
import { FleetDeployments } from "./fleet-deployments.tsx";
import { FleetMenu, FollowFleet } from "./fleet-menu.tsx";
import { HeatMap } from "./heat-map.tsx";

const route = getRouteApi("/app/fleets/$id");

/** A fleet: the health of its robots, its releases and config, and its deployments. */
export function FleetPage() {
  const { id } = route.useParams();
  const fleet = useQuery(query("getFleet", { params: { id } }));
  return <QueryState query={fleet}>{({ data }) => <Found key={data.id} fleet={data} />}</QueryState>;
}

function Found({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const { id, name, robot_count, online_count } = fleet;
  return (
    <>
      <PageHeader
        title={<Text>{name}</Text>}
        label={name}
        meta={
          <>
            <Link to="/robots" search={{ fleet_id: id }} className="hover:underline">
              {robot_count.toLocaleString()} {robot_count === 1 ? "robot" : "robots"}
            </Link>
            <Link to="/robots" search={{ fleet_id: id, status: "online" }} className="hover:underline">
              {online_count.toLocaleString()} online
            </Link>
            <CopyText label="ID">{id}</CopyText>
          </>
        }
        actions={
          <>
            <LinkButton to="/fleets/$id/logs" params={{ id }} icon={<ScrollText size={14} aria-hidden />}>
              Logs
            </LinkButton>
            {may_change && (
              <LinkButton look="primary" icon={<Rocket size={14} aria-hidden />} to="/deployments/new" search={{ fleet_id: id }}>
                Deploy
              </LinkButton>
            )}
            <FleetMenu fleet={fleet} />
          </>
        }
      />
      <HeatMap fleet_id={id} total={robot_count} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <Desired fleet={fleet} />
        <FleetDeployments fleet_id={id} />
      </div>
    </>
  );
}

/** A link in a list of values, high enough for touch input. */
const LINK = "inline-block min-h-6 leading-6 text-accent underline";

function Desired({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const [is_asking, setAsking] = useState(false);
  const { site_names } = usePlaces();
  const { desired, follow, site_id, config_revision, created_at } = fleet;
  return (
    <Section title="Current release">
      <Card>
        <KeyValue
          items={[
            ...Object.entries(desired).map(
              ([app, release]) =>
                [
                  app,
                  <Link key={app} to="/releases/$id" params={{ id: release.id }} className={LINK}>
                    <Text>{release.tag}</Text>
                  </Link>,
                ] as const,
            ),
            Object.keys(desired).length === 0 && [
              "Releases",
              <span key="none" className="text-muted">
                none deployed yet
              </span>,
            ],
            [
              "Configs",
              <span key="configs" className="flex flex-wrap items-center gap-x-3 gap-y-1">
                <Link to="/configs" search={{ scope: "fleet", scope_id: fleet.id }} className={LINK}>
                  {config_revision === null ? "effective values" : "last deployment"}
                </Link>
                <FleetPending fleet={fleet} />
              </span>,
            ],
            [
              "New robots",
              <span key="follow" className="flex flex-wrap items-center gap-x-3 gap-y-1">
                {follow ? "auto-update" : "no auto-update"}
                {may_change && (
                  <Button className="!h-7 !px-2 text-xs" onClick={() => setAsking(true)}>
                    {follow ? "Disable auto-update" : "Enable auto-update"}
                  </Button>
                )}
              </span>,
            ],
            [
              "Site",
              <Link key="site" to="/sites/$id" params={{ id: site_id }} className={LINK}>
                <Text>{site_names.get(site_id) ?? site_id}</Text>
              </Link>,
            ],
            ["Created", <Time key="made" at={created_at} exact />],
          ]}
        />
      </Card>
      {is_asking && <FollowFleet fleet={fleet} onClose={() => setAsking(false)} />}
    </Section>
  );
}
