import type { Robot } from "@roamfleet/protocol/routes";
import { Link, Outlet } from "@tanstack/react-router";
import { CircleDashed, CircleX, type LucideIcon, ShieldAlert, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { usePlaces } from "../../api/queries.ts";
import {
  ConfigState,
  CopyText,
  cx,
  HealthBadge,
  LinkTabs,
  LoadedPage,
  PageHeader,
  ReleaseState,
  StatusBadge,
  Text,
  Time,
  useOutage,
} from "../../ui/index.ts";
import { RobotPending } from "../configs/pending-badge.tsx";
import { RobotActions } from "./robot-actions.tsx";
import { useRobotQuery } from "./use-robot.ts";

/** The header of a robot's page with name and status, and the selected tab. */
export function RobotFrame() {
  const robot = useRobotQuery();
  return (
    <LoadedPage title="Robot" query={robot}>
      {(data) => (
        <>
          <RobotHead robot={data} />
          <RobotNotice robot={data} />
          <RobotTabs id={data.id} />
          <Outlet />
        </>
      )}
    </LoadedPage>
  );
}

function RobotHead({ robot }: { robot: Robot }) {
  const { fleet_names, site_names } = usePlaces();
  const { id, name, status, health, release_state, config_state, fleet_id, site_id, last_seen_at } = robot;
  return (
    <PageHeader
      title={<Text>{name}</Text>}
      label={name}
      actions={<RobotActions robot={robot} />}
      meta={
        <>
          <StatusBadge status={status} />
          {health !== "unknown" && <HealthBadge robot={robot} />}
          {release_state !== "unknown" && (
            <Labelled label="release">
              <ReleaseState state={release_state} />
            </Labelled>
          )}
          {config_state !== "unknown" && (
            <Labelled label="config">
              <ConfigState state={config_state} />
            </Labelled>
          )}
          {status !== "decommissioned" && <RobotPending robot_id={id} />}
          <span className="flex min-w-0 flex-wrap items-center gap-1">
            <Link to="/fleets/$id" params={{ id: fleet_id }} className="min-w-0 text-accent underline">
              <Text>{fleet_names.get(fleet_id) ?? "a fleet"}</Text>
            </Link>
            at
            <Link to="/sites/$id" params={{ id: site_id }} className="min-w-0 text-accent underline">
              <Text>{site_names.get(site_id) ?? "a site"}</Text>
            </Link>
          </span>
          {status !== "online" && last_seen_at !== null && (
            <span>
              last seen <Time at={last_seen_at} />
            </span>
          )}
          <CopyText label="ID" text={id} />
        </>
      }
    />
  );
}

function Labelled({ label, children }: { label: string; children: ReactNode }) {
  return (
    <span className="inline-flex items-center gap-1 text-xs">
      {label} {children}
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
        { label: "Metrics", link: { to: "/robots/$id/metrics", params } },
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

/** Explains why a robot is unreachable or restricted, and which actions still work. Renders nothing for a normal robot. */
function RobotNotice({ robot: { status, held_at, approval } }: { robot: Robot }) {
  const is_outage = useOutage() !== undefined;
  if (status === "decommissioned")
    return (
      <Notice icon={CircleX} title="Decommissioned">
        The server refuses this robot's identity, and the robot can no longer be changed. Its timeline, logs and recordings are kept until
        their retention ends.
      </Notice>
    );
  if (held_at !== null)
    return (
      <Notice icon={ShieldAlert} title="Quarantined: several machines use this identity" tone="bad">
        All of these machines have been refused since <Time at={held_at} />. Switch the other machines off and unblock the robot, or replace
        its computer. Both actions are in the menu.
      </Notice>
    );
  if (approval === "pending")
    return (
      <Notice icon={ShieldAlert} title="Awaiting approval">
        The robot enrolled with a key that is not trusted. Until an admin of the organization approves the robot in the menu, it receives no
        secret config values and no registry logins, and config deployments that contain secrets wait.
      </Notice>
    );
  if (status === "offline")
    return (
      <Notice icon={Unplug} title="Offline">
        This page shows the last reported state.{" "}
        {!is_outage &&
          "You can deploy, change config and labels, and move the robot now; changes take effect when it reconnects. Shell, camera, topics and new log records are not available."}
      </Notice>
    );
  if (status === "never_connected")
    return (
      <Notice icon={CircleDashed} title="Never connected">
        The robot has enrolled, but its agent has not connected yet. Check that the agent runs and can reach this server.
      </Notice>
    );
  return null;
}

function Notice({
  icon: Icon,
  title,
  children,
  tone = "warn",
}: {
  icon: LucideIcon;
  title: string;
  children: ReactNode;
  tone?: "warn" | "bad";
}) {
  return (
    <div
      role="status"
      className={cx(
        "mb-4 flex items-start gap-2.5 rounded-lg border px-3 py-2",
        tone === "bad" ? "border-bad bg-bad-soft" : "border-line bg-sunken",
      )}
    >
      <Icon size={16} aria-hidden className={cx("mt-0.5 shrink-0", tone === "bad" ? "text-bad" : "text-warn")} />
      <p className="min-w-0">
        <strong className="font-semibold">{title}.</strong> {children}
      </p>
    </div>
  );
}
