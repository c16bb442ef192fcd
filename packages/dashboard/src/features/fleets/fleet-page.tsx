import type { Fleet } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ChartLine, Rocket, ScrollText } from "lucide-react";
import { useState } from "react";
import { query, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Button,
  Card,
  CardList,
  CopyText,
  DeploymentStatusBadge,
  KeyValue,
  LinkButton,
  LoadedPage,
  PageHeader,
  QueryState,
  Section,
  Text,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { FleetPending } from "../configs/pending-badge.tsx";
import { VersionMix } from "../overview/version-mix.tsx";
import { FleetMenu, FollowFleet, RobotCounts } from "./fleet-menu.tsx";
import { HeatMap } from "./heat-map.tsx";

const route = getRouteApi("/app/fleets/$id");

/** A fleet: the health of its robots, its releases and config, and its deployments. */
export function FleetPage() {
  const { id } = route.useParams();
  const fleet = useQuery(query("getFleet", { params: { id } }));
  return (
    <LoadedPage title="Fleet" query={fleet}>
      {(data) => <Found key={data.id} fleet={data} />}
    </LoadedPage>
  );
}

function Found({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const { id, name, robot_count } = fleet;
  return (
    <>
      <PageHeader
        title={<Text>{name}</Text>}
        label={name}
        meta={
          <>
            <RobotCounts search={{ fleet_id: id }} {...fleet} />
            <CopyText label="ID" text={id} />
          </>
        }
        actions={
          <>
            <LinkButton to="/fleets/$id/logs" params={{ id }} icon={ScrollText}>
              Logs
            </LinkButton>
            <LinkButton to="/explore" search={{ panels: [{ fleet_id: id, group_by: "robot" }] }} icon={ChartLine}>
              Metrics
            </LinkButton>
            {may_change && (
              <LinkButton look="primary" icon={Rocket} to="/deployments/new" search={{ fleet_id: id }}>
                Deploy
              </LinkButton>
            )}
            <FleetMenu fleet={fleet} />
          </>
        }
      />
      <HeatMap fleet_id={id} total={robot_count} />
      <VersionMix scope={{ fleet_id: id }} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <Desired fleet={fleet} />
        <FleetDeployments fleet_id={id} />
      </div>
    </>
  );
}

/** A link in a list of values, high enough for touch input. */
const LINK = "block w-fit max-w-full min-h-6 leading-6 text-accent underline";

function Desired({ fleet }: { fleet: Fleet }) {
  const may_change = useMay("operator");
  const [is_asking, setAsking] = useState(false);
  const { site_names } = usePlaces();
  const { desired, follow, site_id, config_revision, created_at } = fleet;
  const releases = Object.entries(desired).map(([app, { id, tag }]) => [
    app,
    <Link key={app} to="/releases/$id" params={{ id }} className={LINK}>
      <Text>{tag}</Text>
    </Link>,
  ]);
  return (
    <Section title="Releases and config">
      <Card>
        <KeyValue
          items={{
            ...Object.fromEntries(releases),
            Release: releases.length === 0 && <span className="text-muted">none deployed yet</span>,
            Configs: (
              <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
                <Link to="/configs" search={{ scope: "fleet", scope_id: fleet.id }} className={LINK}>
                  effective values
                </Link>
                {config_revision === null && <span className="text-muted">none deployed yet</span>}
                <FleetPending fleet={fleet} />
              </span>
            ),
            "New robots": (
              <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
                {follow ? "auto-update" : "no auto-update"}
                {may_change && (
                  <Button className="!h-7 !px-2 text-xs" busy={false} onClick={() => setAsking(true)}>
                    {follow ? "Disable auto-update" : "Enable auto-update"}
                  </Button>
                )}
              </span>
            ),
            Site: (
              <Link to="/sites/$id" params={{ id: site_id }} className={LINK}>
                <Text>{site_names.get(site_id) ?? "a site"}</Text>
              </Link>
            ),
            Created: <Time at={created_at} exact />,
          }}
        />
      </Card>
      {is_asking && <FollowFleet fleet={fleet} onClose={() => setAsking(false)} />}
    </Section>
  );
}

const RECENT = 8;

/** The latest deployments to the fleet. */
function FleetDeployments({ fleet_id }: { fleet_id: string }) {
  const list = useQuery(query("listDeployments", { query: { fleet_id, limit: RECENT } }));
  return (
    <Section title="Deployments" all={list.data?.items.length !== 0 && { to: "/deployments", search: { fleet_id } }}>
      <QueryState query={list}>
        {({ items }) => (
          <CardList items={items} empty="No deployments yet">
            {(deployment) => (
              <li key={deployment.id}>
                <Link to="/deployments/$id" params={{ id: deployment.id }} className="flex items-center gap-3 px-4 py-2 hover:bg-hover">
                  <TextLine className="flex-1 font-medium">{deployment.release.tag}</TextLine>
                  <DeploymentStatusBadge deployment={deployment} />
                  <span className="w-20 shrink-0 text-right text-xs text-muted">
                    <Time at={deployment.created_at} />
                  </span>
                </Link>
              </li>
            )}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}
