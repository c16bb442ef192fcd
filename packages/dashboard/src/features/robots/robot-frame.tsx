import type { Robot } from "@roamfleet/protocol/routes";
import { Link, Outlet } from "@tanstack/react-router";
import { CopyText, HealthBadge, LinkTabs, PageHeader, QueryState, StatusBadge, Text, Time } from "../../ui/index.ts";
import { RobotPending } from "../configs/index.ts";
import { usePlaces } from "./place-names.ts";
import { RobotActions } from "./robot-actions.tsx";
import { RobotNotice } from "./robot-notice.tsx";
import { useRobotQuery } from "./use-robot.ts";

/** The header of a robot's page with name and status, and the selected tab. */
export function RobotFrame() {
  const robot = useRobotQuery();
  return (
    <QueryState query={robot} rows={8}>
      {({ data }) => (
        <>
          <RobotHead robot={data} />
          <RobotNotice robot={data} />
          <RobotTabs id={data.id} />
          <Outlet />
        </>
      )}
    </QueryState>
  );
}

function RobotHead({ robot }: { robot: Robot }) {
  const { fleetName, siteName } = usePlaces();
  const { id, name, status, health, release_state, config_state, fleet_id, site_id, last_seen_at } = robot;
  return (
    <PageHeader
      title={<Text>{name}</Text>}
      label={name}
      actions={<RobotActions robot={robot} />}
      meta={
        <>
          <StatusBadge status={status} />
          {health !== "unknown" && (
            <span className="inline-flex items-center gap-1 text-xs">
              health <HealthBadge robot={robot} />
            </span>
          )}
          {release_state !== "unknown" && <Labelled label="release" status={release_state} />}
          {config_state !== "unknown" && <Labelled label="config" status={config_state} />}
          {status !== "decommissioned" && <RobotPending robot_id={id} />}
          <span className="flex min-w-0 flex-wrap items-center gap-1">
            <Link to="/fleets/$id" params={{ id: fleet_id }} className="min-w-0 text-accent underline">
              <Text>{fleetName(fleet_id) ?? "fleet"}</Text>
            </Link>
            at
            <Link to="/sites/$id" params={{ id: site_id }} className="min-w-0 text-accent underline">
              <Text>{siteName(site_id) ?? "site"}</Text>
            </Link>
          </span>
          {status !== "online" && (
            <span>
              last seen <Time at={last_seen_at} />
            </span>
          )}
          <CopyText label="ID">{id}</CopyText>
        </>
      }
    />
  );
}

function Labelled({ label, status }: { label: string; status: string }) {
  return (
    <span className="inline-flex items-center gap-1 text-xs">
      {label} <StatusBadge status={status} />
    </span>
  );
}

function RobotTabs({ id }: { id: string }) {
  const params = { id };
  return (
    <LinkTabs
      label="Robot"
      tabs={[
        { label: "Overview", link: { to: "/robots/$id", params } },
        { label: "Health", link: { to: "/robots/$id/health", params } },
        { label: "Config", link: { to: "/robots/$id/config", params } },
        { label: "Timeline", link: { to: "/robots/$id/timeline", params } },
        { label: "Logs", link: { to: "/robots/$id/logs", params } },
        { label: "Shell", link: { to: "/robots/$id/shell", params } },
        { label: "Camera", link: { to: "/robots/$id/camera", params } },
        { label: "Topics", link: { to: "/robots/$id/topics", params } },
      ]}
    />
  );
}
