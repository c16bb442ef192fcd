import type { Robot } from "@roamfleet/protocol/routes";
import { CircleDashed, CircleX, ShieldAlert, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { cx, Time } from "../../ui/index.ts";

/** Why a robot cannot be reached, since when, and what can be done all the same; nothing while it is there. */
export function RobotNotice({ robot: { status, held_at, approval, last_seen_at } }: { robot: Robot }) {
  if (status === "decommissioned")
    return (
      <Notice icon={<CircleX size={16} aria-hidden />} title="Decommissioned">
        Its identity is refused, and nothing can be changed any more. Its timeline, logs and recordings stay until their days are over.
      </Notice>
    );
  if (held_at !== null)
    return (
      <Notice icon={<ShieldAlert size={16} aria-hidden />} title="Held: several machines have its identity" tone="bad">
        Since <Time at={held_at} /> none of them is let in. Switch the others off and let it in again, or give the robot a new key: both are
        in its menu.
      </Notice>
    );
  if (approval === "pending")
    return (
      <Notice icon={<ShieldAlert size={16} aria-hidden />} title="Awaiting approval">
        It enrolled with a key that is not trusted. Secret config values and registry logins are withheld, and config deployments that
        contain secrets wait, until an admin of the organization approves it in its menu.
      </Notice>
    );
  if (status === "offline")
    return (
      <Notice icon={<Unplug size={16} aria-hidden />} title="Offline">
        Last seen <Time at={last_seen_at} />: what stands here is what it said then. Deployments, config, labels and moves can be made now,
        and reach it when it comes back. Shell, camera, topics and new log records have to wait for it.
      </Notice>
    );
  if (status === "never_connected")
    return (
      <Notice icon={<CircleDashed size={16} aria-hidden />} title="Has never connected">
        It was enrolled, and its agent has not connected since. See whether the agent runs and reaches this server.
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
