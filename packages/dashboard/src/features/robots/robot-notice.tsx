import type { Robot } from "@roamfleet/protocol/routes";
import { CircleDashed, CircleX, ShieldAlert, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { cx, Time } from "../../ui/index.ts";

/** Explains why a robot is unreachable or restricted, and which actions still work. Renders nothing for a normal robot. */
export function RobotNotice({ robot: { status, held_at, approval, last_seen_at } }: { robot: Robot }) {
  if (status === "decommissioned")
    return (
      <Notice icon={<CircleX size={16} aria-hidden />} title="Decommissioned">
        The server refuses this robot's identity, and the robot can no longer be changed. Its timeline, logs and recordings are kept until
        their retention ends.
      </Notice>
    );
  if (held_at !== null)
    return (
      <Notice icon={<ShieldAlert size={16} aria-hidden />} title="Blocked: several machines use this identity" tone="bad">
        None of them has been accepted since <Time at={held_at} />. Switch the other machines off and unblock the robot, or replace its
        computer. Both actions are in the menu.
      </Notice>
    );
  if (approval === "pending")
    return (
      <Notice icon={<ShieldAlert size={16} aria-hidden />} title="Awaiting approval">
        It enrolled with a key that is not trusted. Secret config values and registry logins are withheld, and config deployments that
        contain secrets wait, until an admin of the organization approves the robot in its menu.
      </Notice>
    );
  if (status === "offline")
    return (
      <Notice icon={<Unplug size={16} aria-hidden />} title="Offline">
        Last seen <Time at={last_seen_at} />. This page shows its last reported state. You can deploy, change config and labels, and move
        the robot now; changes take effect when it reconnects. Shell, camera, topics and new log records are not available.
      </Notice>
    );
  if (status === "never_connected")
    return (
      <Notice icon={<CircleDashed size={16} aria-hidden />} title="Never connected">
        The robot has enrolled, but its agent has not connected yet. Check that the agent runs and can reach this server.
      </Notice>
    );
  return null;
}

function Notice({ icon, title, children, tone = "warn" }: { icon: ReactNode; title: string; children: ReactNode; tone?: "warn" | "bad" }) {
  return (
    <div
      role="status"
      className={cx(
        "mb-4 flex items-start gap-2.5 rounded-lg border px-3 py-2",
        tone === "bad" ? "border-bad bg-bad-soft" : "border-line bg-sunken",
      )}
    >
      <span className={cx("mt-0.5 shrink-0", tone === "bad" ? "text-bad" : "text-warn")}>{icon}</span>
      <p className="min-w-0">
        <strong className="font-semibold">{title}.</strong> {children}
      </p>
    </div>
  );
}
